"""Policies: pure functions from what was observed to who gets what. A file or folder each; `decide` is the front door."""
