"""Programs of our own that are served as real services: `python -m osml.lab.trials.live.servers.NAME`."""
