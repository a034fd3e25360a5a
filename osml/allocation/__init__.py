"""What policies share: the protocol `Policy`, and how cores, ways and bandwidth are counted, divided and moved."""
