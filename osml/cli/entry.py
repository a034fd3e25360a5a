"""Console entry point: loading the commands takes a second, in which Ctrl-C is no reason for a traceback."""

from __future__ import annotations

import sys


def main() -> None:
    """Load the commands and run the one that is asked for; exit code 130 after Ctrl-C."""
    try:
        from osml.cli.main import main as run  # noqa: PLC0415 - what takes the second

        run()
    except KeyboardInterrupt:
        sys.exit(130)
