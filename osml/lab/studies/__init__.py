"""One-off studies: a simulation of the Linux scheduler beside the formula that the virtual node uses."""
