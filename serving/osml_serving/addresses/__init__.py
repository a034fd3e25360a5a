"""Where other servers and workers are found."""
