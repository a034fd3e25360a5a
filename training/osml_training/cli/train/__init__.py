"""`osml learn train`."""
