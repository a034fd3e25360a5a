"""The dispatch testbed: a real HAProxy before two real web servers, one of them under real interference."""
