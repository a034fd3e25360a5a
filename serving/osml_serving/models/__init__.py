"""The models that the server decides with, exchanged while it runs."""
