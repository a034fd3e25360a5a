"""What osml's speed claims are measured with: `make bench` writes out/bench/*.json."""
