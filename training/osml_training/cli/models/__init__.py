"""`osml learn models`."""
