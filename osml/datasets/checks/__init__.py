"""Checks of a data set, each on what it needs: a table, a machine, a run, a name. A finding says where."""
