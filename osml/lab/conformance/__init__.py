"""Whether a server keeps the contract of the wire format, version 1: for writers of agents and of servers."""
