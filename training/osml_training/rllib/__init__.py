"""Model-C online on RLlib, with the same network and settings as the plain loop."""
