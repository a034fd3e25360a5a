"""Trials of the whole product: on the virtual node (`demo`) and on real services of this machine (`live`)."""
