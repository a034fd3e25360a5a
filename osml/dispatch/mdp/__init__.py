"""The Markov decision process of request dispatch under interference, and its exact solution."""
