"""Collects a sweep into files: resumable, by several processes or on a Ray cluster."""

from __future__ import annotations

import importlib
import io
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from osml.base.extras import how_to_install
from osml.base.failure import Failure, InputError
from osml.base.whole_file import whole_file
from osml.base.worker_processes import worker_pool
from osml.datasets.arrow import pa, pq
from osml.datasets.dataset import DatasetDescription, read_description, same_collection, write_description
from osml.datasets.description import PROVENANCE_KEY, Provenance
from osml.datasets.label import Labelling, label_file
from osml.datasets.programs import current_program
from osml.datasets.schema import TRACE_COLUMNS, write_options
from osml.datasets.store import DATASET, TRACES, forget_labels, trace_files
from osml_training.collect.fingerprint import virtual_fingerprint
from osml_training.collect.rows import provenance_of, schema_of, table_of
from osml_training.collect.simulate import compile_all
from osml_training.collect.sweep import Part, Sweep, parts_of
from osml_training.collect.variants import platform_of


class Done(NamedTuple):
    """A part that is there: its rows, and whether it was so before."""

    part: Part
    rows: int
    resumed: bool


def part_bytes(part: Part, sweep: Sweep) -> bytes:
    """The file of a part: one row group for each run. The same part and sweep give the same bytes."""
    buffer, schema = io.BytesIO(), schema_of(sweep, part.platform)
    with pq.ParquetWriter(buffer, schema, **write_options(TRACE_COLUMNS)) as writer:
        for run in part.runs:
            writer.write_table(table_of(run, sweep, schema))
    return buffer.getvalue()


def _write_part(part: Part, sweep: Sweep, traces: Path) -> int:
    return _store(part_bytes(part, sweep), traces, part)


def _store(content: bytes, traces: Path, part: Part) -> int:
    file = traces / part.path
    with whole_file(file) as partial:
        partial.write_bytes(content)
        forget_labels(traces.parent, file, partial)
    return int(pq.read_metadata(file).num_rows)


def rows_of_part(part: Part, sweep: Sweep) -> int:
    """How many rows a part has."""
    return sum(sweep.rows_of(run) for run in part.runs)


def _there(part: Part, sweep: Sweep, traces: Path, *, last: bool) -> int | None:
    """Rows of a part that is there and whole; None where it is to be made: it is missing, broken or too short.

    A longer one is of an earlier collection with more rows, and is kept: it begins with the runs of this one. That can
    only be the last part of a service. Any other, and one of another collection, is an InputError.
    """
    file = traces / part.path
    if not file.exists():
        return None
    try:
        found = pq.ParquetFile(file)
    except (OSError, pa.ArrowException):
        return None
    rows, wanted = int(found.metadata.num_rows), rows_of_part(part, sweep)
    if _with_current_program(found.schema_arrow.metadata) != dict(schema_of(sweep, part.platform).metadata):
        raise InputError(f"{file} is of another collection: use the same options to continue, or another folder")
    if rows < wanted:
        return None
    if rows > wanted and not last:
        raise InputError(f"{file} has {rows} rows, expected {wanted} of this collection: use another folder")
    return rows


def _with_current_program(found: Mapping[bytes, bytes] | None) -> dict[bytes, bytes]:
    """The metadata of a file; a collection can go on after the command that made it got another name."""
    known = dict(found or {})
    key = PROVENANCE_KEY.encode()
    try:
        provenance = msgspec.json.decode(known.get(key, b""), type=Provenance)
    except msgspec.DecodeError:
        return known
    return known | {key: msgspec.json.encode(replace(provenance, program=current_program(provenance.program)))}


def describe(folder: Path, sweep: Sweep, name: str) -> None:
    """Write dataset.json, or make sure that the one that is there is of the same sweep (only `rows` may differ)."""
    fingerprints = [virtual_fingerprint(platform_of(platform)) for platform in sweep.platforms]
    wanted = DatasetDescription(name, provenance_of(sweep), fingerprints)
    if (folder / DATASET).exists():
        known = read_description(folder).provenance
        known = replace(known, program=current_program(known.program))
        if known != wanted.provenance:
            raise InputError(
                f"'{folder}' contains another collection ({_difference(known, wanted.provenance)}): "
                "use the same options to continue, or another folder"
            )
    write_description(folder, same_collection(folder, wanted))


def _difference(known: Provenance, wanted: Provenance) -> str:
    before, now = known.settings | {"seed": known.seed}, wanted.settings | {"seed": wanted.seed}
    for key in sorted({*before, *now}):
        if before.get(key) != now.get(key):
            return f"{key}: {before.get(key)}, now {now.get(key)}"
    return f"made by {known.program} {known.version}"


def _processes(todo: list[Part], sweep: Sweep, traces: Path, workers: int) -> Iterator[tuple[Part, int]]:
    if workers == 1:
        for part in todo:
            yield part, _write_part(part, sweep, traces)
        return
    compile_all()  # here once, not in every process
    with worker_pool(workers) as pool:
        futures: dict[Future[int], Part] = {pool.submit(_write_part, part, sweep, traces): part for part in todo}
        for future in as_completed(futures):
            yield futures[future], future.result()


def _on_ray(todo: list[Part], sweep: Sweep, traces: Path, address: str) -> Iterator[tuple[Part, int]]:
    """Nodes of the cluster simulate, this process writes: they need no shared folder."""
    # Under `uv run` Ray would build an environment for its workers out of the project: ours have one.
    os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError:
        raise Failure(f"--ray needs Ray: {how_to_install('ray', package='osml-training')}") from None
    try:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # else it reports to its maker
        ray.init(address=None if address == "local" else address, include_dashboard=False, log_to_driver=False)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise Failure(f"cannot reach a Ray cluster at '{address}' ({error})") from None
    try:
        remote = ray.remote(part_bytes)
        waiting: dict[Any, Part] = {}
        queue = iter(todo)
        limit = 2 * max(1, int(ray.cluster_resources().get("CPU", 1)))
        while True:
            while len(waiting) < limit and (part := next(queue, None)) is not None:
                waiting[remote.remote(part, sweep)] = part
            if not waiting:
                return
            ready, _ = ray.wait(list(waiting))
            for reference in ready:
                part = waiting.pop(reference)
                yield part, _store(ray.get(reference), traces, part)
    finally:
        ray.shutdown()


def collect(
    folder: Path,
    sweep: Sweep,
    *,
    name: str | None = None,
    workers: int = 1,
    ray: str | None = None,
    part_rows: int = 200_000,
    done: Callable[[Done], None] | None = None,
) -> int:
    """Collect a sweep into `folder`/traces; returns the rows that are there at the end.

    Parts that are there already are kept, so an interrupted collection carries on, and one with more `rows` grows.
    One with fewer deletes nothing.
    `done` hears of every part. Raises InputError for an impossible sweep and for a folder with another one.
    """
    sweep.checked()
    parts = parts_of(sweep, part_rows)
    folder.mkdir(parents=True, exist_ok=True)
    describe(folder, sweep, name or folder.name)
    traces = folder / TRACES
    rows = 0
    todo: list[Part] = []
    numbers = {(part.platform, part.service): part.number for part in parts}  # of the last one: they are in order
    for part in parts:
        known = _there(part, sweep, traces, last=part.number == numbers[part.platform, part.service])
        if known is not None:
            rows += _report(Done(part, known, True), done)
        else:
            todo.append(part)
    fresh = _on_ray(todo, sweep, traces, ray) if ray else _processes(todo, sweep, traces, max(1, workers))
    for part, count in fresh:
        rows += _report(Done(part, count, False), done)
    return rows


def _report(found: Done, done: Callable[[Done], None] | None) -> int:
    if done is not None:
        done(found)
    return found.rows


def collect_labelled(folder: Path, sweep: Sweep, *, labelling: Labelling = "frontier", workers: int = 1) -> Path:
    """Collect a sweep and label it: a data set that `ExampleSource` reads. Returns the folder."""
    collect(folder, sweep, workers=workers)
    for file in trace_files(folder):
        label_file(folder, file, labelling)
    return folder
