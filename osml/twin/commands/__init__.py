"""The commands `osml twin`, `osml advise` and `osml replay`."""
