"""`python -m attnspec` is the command `attnspec`."""

from .cli import main

main()
