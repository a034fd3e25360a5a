"""Several server processes on one port: each serves its own connections, and uses one core."""
