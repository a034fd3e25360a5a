"""Policies: pure functions from what was observed to who gets what. One file a policy; `decide` is their front door."""
