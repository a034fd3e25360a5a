"""The process behind `osml lab simulator mount`: drives the engine and exports the node's files."""
