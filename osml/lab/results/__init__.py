"""The figures of README and docs: each is made by a command, kept in `docs/results/*.json`, and rendered from there."""
