"""Shadow policies: they decide beside the policy of a node, in a process of their own, and nothing is applied."""
