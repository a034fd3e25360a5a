"""Which policy and which models decide for a node: groups of nodes, and canaries that return by themselves."""
