"""Cases for programs without attnspec: inputs, what is expected, and how far from it a result may be."""
