"""`osml run live`: server and real agent against real services on this machine, unmanaged and then under a policy."""
