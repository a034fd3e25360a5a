"""Collects traces: sweeps of the virtual node, recordings of live nodes, the published data set. No torch."""
