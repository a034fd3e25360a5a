"""Servers of models beside ours, with the same file in each: who takes how much CPU time for an answer."""
