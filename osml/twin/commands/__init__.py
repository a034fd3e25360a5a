"""The commands `osml look twin`, `osml look advise` and `osml look replay`."""
