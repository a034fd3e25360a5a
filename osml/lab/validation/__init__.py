"""Real services measured on this machine, against what a simulation of the kernel's scheduler predicts.

`run` is the way in. `stage` keeps services and generator running and measures cells, `design` says which cells there
are, `calibrate` turns a few measured cells into a profile of a service, `predict` simulates a cell from profiles, and
`score` compares. `curve` finds a service's target.
"""
