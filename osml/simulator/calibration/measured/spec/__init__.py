"""SPEC CPU programs over the size of the last-level cache, in one way with copies, and over busy cores."""
