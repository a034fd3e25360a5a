"""A node with the Linux scheduler in it, event by event: the independent judge of the node's formulas.

`simulate` is the way in, `model` says what can be simulated. What they import knows no formula of osml.simulator.
`laws` are the short formulas that repeat what is found, `sweep` their errors. `analytic` asks the node for the same
cases; `compare` and `mixes` print both.
"""
