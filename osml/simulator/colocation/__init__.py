"""The environment `osml/Colocation-v0` without gymnasium; `osml.simulator.environment` is its gymnasium side."""
