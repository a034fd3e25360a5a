"""Policies that may take long: each in a process of its own, so that no other node waits for them."""
