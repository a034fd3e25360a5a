"""A program's misses over the size of the last-level cache, measured by running it under instrumentation."""
