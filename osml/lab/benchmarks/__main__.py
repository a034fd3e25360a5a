"""`python -m osml.lab.benchmarks [NAME...]`: runs bench_NAME.py, all of them by default, those of training too."""

from __future__ import annotations

import pkgutil
import sys
from importlib import import_module
from importlib.util import find_spec

PREFIX = "bench_"
PACKAGES = ("osml.lab.benchmarks", "osml_training.benchmarks")


def found() -> dict[str, str]:
    """Names of the benchmarks and their modules."""
    modules: dict[str, str] = {}
    for package in PACKAGES:
        if find_spec(package.partition(".")[0]) is None:
            continue
        for one in pkgutil.iter_modules(import_module(package).__path__):
            if one.name.startswith(PREFIX):
                modules[one.name.removeprefix(PREFIX)] = f"{package}.{one.name}"
    return modules


def main() -> None:
    """Run the benchmarks that are named; exit code 2 for a name that does not exist."""
    known = found()
    for name in sys.argv[1:] or sorted(known):
        if name not in known:
            sys.exit(f"benchmark '{name}' is unknown; known are {', '.join(sorted(known))}")
        import_module(known[name]).run()


if __name__ == "__main__":
    main()
