"""What `osml --help` says of `osml virtual`, whose commands are loaded only when one of them is asked for."""

HELP = "A virtual node: a machine made of equations, calibrated on published facts."
