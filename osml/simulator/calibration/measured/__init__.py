"""Equations of a node against numbers that others measured on real machines, in files of fixed columns.

One module a law or a file; `run` has all of them. The compiled step of the node (physics/step.py) runs none of these.
docs/reference/measured.md describes files, tests and results.
"""
