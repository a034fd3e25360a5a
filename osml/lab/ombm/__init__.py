"""OMBM on the virtual node: profiling, and the experiments of its figures 5 to 12. Everything here is simulated."""
