"""Rows per second of `osml learn data`: collected, labelled, checked, and read as examples. Simulated; one process.

The aim of collecting (1,000,000 rows in 60 s on 2 cores) is 16,700 rows/s and 8,300 rows/s for each of two processes.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
import tempfile
from pathlib import Path

from osml.lab.benchmarks.harness import rate, take


def run() -> None:
    """All figures of one data set of eleven services, about 200,000 rows."""
    if importlib.util.find_spec("osml_training") is None:
        print("bench_data: osml-training isn't installed, nothing is measured", file=sys.stderr)
        return
    from osml.datasets.label import label_file  # noqa: PLC0415
    from osml.datasets.store import trace_files  # noqa: PLC0415
    from osml.datasets.validate import validate  # noqa: PLC0415
    from osml_training.cli.data.collect import PAPER_SERVICES  # noqa: PLC0415
    from osml_training.collect.collect import collect  # noqa: PLC0415
    from osml_training.collect.sweep import Sweep  # noqa: PLC0415
    from osml_training.tables.examples import ExampleSource  # noqa: PLC0415

    sweep = Sweep(("e5-2697v4",), PAPER_SERVICES, PAPER_SERVICES, rows=200_000)
    with tempfile.TemporaryDirectory() as folder:
        kept, again = Path(folder) / "kept", Path(folder) / "again"
        rows = collect(kept, sweep)

        def anew() -> None:
            shutil.rmtree(again, ignore_errors=True)
            collect(again, sweep)

        def label() -> None:
            for file in trace_files(kept):
                label_file(kept, file)

        take("data_collect", "rows/s", rate(rows, anew), runs=3)
        take("data_label", "rows/s", rate(rows, label), runs=5)
        take("data_validate", "rows/s", rate(rows, lambda: validate(kept)), runs=3)
        for model in ("a", "a2"):
            source = ExampleSource(kept, model)
            count = sum(len(batch.x) for batch in source.batches(4096))

            def read(source: ExampleSource = source) -> int:
                return sum(len(batch.x) for batch in source.batches(4096))

            take(f"data_examples_{model}", "rows/s", rate(count, read), runs=5)


if __name__ == "__main__":
    run()
