"""What this machine can do, mechanism by mechanism, and how to get what it can't."""
