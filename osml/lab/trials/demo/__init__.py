"""`osml run demo`: server, virtual node and real agent together, unmanaged and then under a policy."""
