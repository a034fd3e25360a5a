"""The environment `osml/Colocation-v0` without gymnasium; `osml.virtual.environment` is its gymnasium side."""
