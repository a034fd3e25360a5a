"""Contributed data sets: kept in a folder, checked in a process of their own."""
