"""The one line of `osml bench` in the list of commands."""

HELP = "Compare policies on the virtual node: suites of the papers' experiments, with reports."
