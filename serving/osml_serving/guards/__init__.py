"""What stands before the routes: tokens, request limits, rate limits, slow clients, the error boundary."""
