"""The process behind `osml virtual mount`: drives the engine and exports the node's files."""
