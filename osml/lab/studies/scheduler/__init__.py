"""A node with the Linux scheduler in it, event by event: the independent judge of the node's formulas.

Nothing here but `compare` imports a formula of osml.simulator. `simulate` is the way in, `model` says what can be
simulated, `laws` are the short formulas that repeat what it finds.
"""
