"""What is under test: adapters, functions in files, and the suite's own stand-ins, with what they claim."""
