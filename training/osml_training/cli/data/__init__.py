"""`osml learn data`."""
