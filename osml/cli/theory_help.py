"""What `osml --help` says of `osml theory`, whose commands are loaded only when one of them is asked for."""

HELP = "Ah-Q's theory on your numbers or the virtual node: TLT bound, DIP abilities, inversions, resource equivalence."
