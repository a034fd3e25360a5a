"""Model-C: a Q-function over 49 actions, learned offline from pairs of traces and online in the environment."""
