"""Interference, as the paper's dcopy: copies vectors of doubles that fit no private cache, with a sleep between.

`python -m osml.lab.testbed.burner --control FILE`: the file holds the share of the core to take, 0 to 1, and may
change at any time. At real-time priority, as a neighbour that the hypervisor favours: ordinary tasks on the core get
what is left, exactly. By weights it would not be exact: where the kernel's tick is 4 ms, a tenth of a core comes in
pieces longer than a request.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np

DOUBLES = 1 << 20  # 8 MiB a vector
PIECE = 1 << 16
PERIOD_S = 0.01
MOST = 0.94
"""The kernel stops real-time tasks that take more than 0.95 of a core."""
WIDTH = 8


def write_share(control: Path, share: float) -> None:
    """Tell a burner, in one write of fixed width, so that it never reads half a number."""
    with control.open("r+b" if control.exists() else "wb", buffering=0) as file:
        file.write(f"{share:<{WIDTH}.4f}".encode())


def main() -> None:
    """Copy until killed."""
    parser = argparse.ArgumentParser(prog="burner")
    parser.add_argument("--control", type=Path, required=True)
    control = os.open(parser.parse_args().control, os.O_RDONLY)
    source, target = np.ones(DOUBLES), np.zeros(DOUBLES)
    place = 0
    while True:
        began = time.monotonic()
        share = min(MOST, float(os.pread(control, WIDTH, 0) or b"0"))
        while time.monotonic() - began < share * PERIOD_S:
            np.copyto(target[place : place + PIECE], source[place : place + PIECE])
            place = (place + PIECE) % DOUBLES
        time.sleep(max(0.0, began + PERIOD_S - time.monotonic()))


if __name__ == "__main__":
    main()
