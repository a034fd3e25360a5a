"""What every room may use: failures with exit codes, worker processes, compiled functions, masked secrets."""
