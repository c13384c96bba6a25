"""Values, texts and files as plain data: what may be stored, sent between processes or shown."""
