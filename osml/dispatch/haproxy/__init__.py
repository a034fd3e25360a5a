"""A running HAProxy observed and changed through its runtime API, and the loop that dispatches by interference."""
