"""From the lines of a run to what people read. Everything here is made from plain data; nothing is computed anew."""
