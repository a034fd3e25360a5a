"""Policies: pure functions from what was observed to who gets what, a file or folder each; `decide` is their door."""
