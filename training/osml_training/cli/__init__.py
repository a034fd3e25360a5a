"""Commands that plug into `osml` (entry point group `osml.commands`)."""
