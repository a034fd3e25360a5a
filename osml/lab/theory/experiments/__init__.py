"""What `osml.lab.theory` speaks of, measured on the virtual node: everything here is simulated."""
