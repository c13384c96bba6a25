"""The specifications: one YAML file a mechanism. Read as data, with `importlib.resources`; never imported from."""
