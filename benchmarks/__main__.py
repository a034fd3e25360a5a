"""`python -m benchmarks [NAME...]`: runs benchmarks/bench_NAME.py, all of them by default."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

names = sys.argv[1:] or sorted(path.stem.removeprefix("bench_") for path in Path(__file__).parent.glob("bench_*.py"))
for name in names:
    import_module(f"benchmarks.bench_{name}").run()
