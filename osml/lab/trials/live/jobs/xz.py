"""xz: compresses the same made-up text over and over."""

from __future__ import annotations

import random
from pathlib import Path

from osml.lab.trials.live.jobs.job import Job
from osml.lab.trials.live.jobs.repeat import command

BYTES = 8 * 1024 * 1024


def _command(directory: Path, threads: int) -> list[str]:
    text = directory / "text"
    draw = random.Random(0)  # noqa: S311 - nothing secret
    words = [draw.randbytes(draw.randint(3, 12)) for _ in range(5000)]
    text.write_bytes(b" ".join(draw.choices(words, k=BYTES // 8)))
    text.chmod(0o644)
    return command(threads, ["xz", "-6", "--threads=1", "--keep", "--stdout", str(text)])


JOB = Job("xz", "xz", "xz-utils", _command, user=None)
