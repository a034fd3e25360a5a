"""How good twins are: hidden nodes whose truth is known, their records, and what twins of these say. All simulated."""
