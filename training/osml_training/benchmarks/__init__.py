"""Speed of training, as `make bench` measures it where torch is installed."""
