"""Interference, as the paper's dcopy: copies vectors of doubles that fit no private cache, without a pause.

`python -m osml.trials.dispatch.burner`; switched off and on from outside, by SIGSTOP and SIGCONT.
"""

from __future__ import annotations

import numpy as np

DOUBLES = 1 << 20  # 8 MiB each


def main() -> None:
    """Copy until killed."""
    source, target = np.ones(DOUBLES), np.zeros(DOUBLES)
    while True:
        np.copyto(target, source)


if __name__ == "__main__":
    main()
