"""Allocation cases: collected, imported, labelled, checked, handed on. Needs pyarrow and numpy, no torch."""
