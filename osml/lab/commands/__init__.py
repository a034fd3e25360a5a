"""The commands of the laboratory: `osml lab`, and `osml run demo` and `osml run live`."""
