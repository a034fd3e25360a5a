"""How good a model is on runs that nobody trained on: table 5 of OSML with ours beside it, baselines, margins."""
