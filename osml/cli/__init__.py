"""The command line of osml: thin Typer commands over the rooms below."""
