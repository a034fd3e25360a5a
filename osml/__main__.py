"""`python -m osml`: the same as `osml`, for the interpreter at hand."""

from osml.cli.entry import main

main()
