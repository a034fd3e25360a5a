"""What `osml --help` says of `osml ombm`, whose commands are loaded only when one of them is asked for."""

HELP = "OMBM: profiles of a service under memory contention, and how much bandwidth it needs."
