"""Data sets of allocation cases: columns, files, labels, checks, packages. Training and server both stand on it."""
