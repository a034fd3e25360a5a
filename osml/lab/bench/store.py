"""Where results live: one small Parquet file a scenario while a run goes on, one table of all at its end."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import pyarrow
import pyarrow.parquet

from osml import __version__
from osml.bandwidth.library import profiles_fingerprint
from osml.base.failure import Failure, InputError
from osml.base.sole_use import take_for_this_process
from osml.lab.bench.episode import Row
from osml.lab.bench.unit import Case, Done
from osml.predictors.manifest import MANIFEST, load_manifest, models_folder

pa: Any = pyarrow  # has no types
pq: Any = pyarrow.parquet
SCHEMA = "osml/bench/v2"
METADATA, RESULTS, TIMELINES, LOCK = "metadata.json", "results.parquet", "timelines.parquet", ".lock"
_TIMELINE_PARTS = "timeline-"
Columns = dict[str, Any]
_TEXT, _REAL, _COUNT, _YES = pa.string(), pa.float64(), pa.int64(), pa.bool_()
_ROW: Columns = {
    "suite": _TEXT, "part": _TEXT, "case": _COUNT, "mix": _TEXT, "platform": _TEXT, "policy": _TEXT, "seed": _COUNT,
    "feasible_oracle": _YES, "converged": _YES, "convergence_s": _REAL, "actions": _COUNT, "actions_total": _COUNT,
    "emu": _REAL, "load": _REAL, "searched_load": _REAL, "cores_used": _REAL, "ways_used": _REAL,
    "oracle_cores": _COUNT, "oracle_ways": _COUNT, "oracle_e_s": _REAL, "intervals": _COUNT, "violations": _COUNT,
    "missed_share": _REAL, "targets": _COUNT, "targets_missed": _COUNT, "target_missed_share": _REAL,
    "target_missed_after": _REAL,
    "intervals_after": _COUNT, "violations_after": _COUNT, "downward": _COUNT, "cliff_falls": _COUNT,
    "e_lc": _REAL, "e_be": _REAL, "e_s": _REAL, "e_be_ipc": _REAL, "e_s_ipc": _REAL, "e_s_run": _REAL,
    "tail_over_target": _REAL, "be_speed": _REAL, "utilisation": _REAL, "tenants": _TEXT,
    "bound_forecasts": _COUNT, "bound_cores": _COUNT, "bound_ways": _COUNT, "bound_oaa": _COUNT,
    "bound_unfamiliar": _COUNT, "bound_unjudged": _COUNT,
    "infeasible_reported": _YES, "unmodelled": _TEXT, "faults": _COUNT, "fault": _TEXT,
    "wall_s": _REAL,
}  # fmt: skip
_ADDED = ("bound_unfamiliar", "bound_unjudged", "unmodelled")
_TIMELINE: Columns = {
    "case": _COUNT, "part": _TEXT, "mix": _TEXT, "policy": _TEXT, "seed": _COUNT, "time_s": _REAL, "service": _TEXT,
    "load": _REAL, "tail_ms": _REAL, "target_ms": _REAL, "cores": _COUNT, "ways": _COUNT,
    "reserved_gbps": _REAL, "busy": _REAL, "changed": _YES,
    "met": _YES, "e_lc": _REAL, "e_be": _REAL, "e_s": _REAL, "be_speed": _REAL,
}  # fmt: skip


def code_fingerprint() -> str:
    """What tells this version from all others: a digest of the package's files, with numpy's and scipy's version."""
    root = Path(str(resources.files("osml")))
    digest = hashlib.sha256(f"numpy {version('numpy')} scipy {version('scipy')}".encode())
    for path in sorted(p for p in root.rglob("*") if p.is_file()):
        if not {"tests", "__pycache__"}.intersection(path.relative_to(root).parts):
            digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def policy_fingerprint(policy: object) -> str:
    """A digest of the module that a policy is defined in: for those of other packages, which `code` does not hold."""
    source = getattr(sys.modules.get(type(policy).__module__), "__file__", None)
    return hashlib.sha256(Path(source).read_bytes()).hexdigest()[:16] if source else "unknown"


def models_fingerprint() -> str:
    """A digest of the shipped models: the manifest and the files that it names, missing ones included."""
    folder = models_folder()
    try:
        entries = load_manifest(folder).models
    except InputError:  # policies then go without: the files that it would name do not count
        entries = []
    files = [folder / MANIFEST, *(folder / entry.name / name for entry in entries for name in sorted(entry.sha256))]
    digest = hashlib.sha256()
    for path in files:
        content = path.read_bytes() if path.is_file() else b"missing"
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + content + b"\0")
    return digest.hexdigest()[:16]


def _made_by() -> dict[str, str]:
    """What rows depend on besides their settings: rows of others can't be compared with them."""
    return {"code": code_fingerprint(), "models": models_fingerprint(), "profiles": profiles_fingerprint()}


def changed_since(described: dict[str, Any]) -> list[str]:
    """What of that is no longer as the metadata of a run says."""
    return [name for name, now in _made_by().items() if described[name] != now]


class Store:
    """A results folder. Raises InputError for one that holds something else."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._parts = folder / "parts"

    def metadata(self) -> dict[str, Any]:
        """What `metadata.json` says."""
        path = self.folder / METADATA
        try:
            found: Any = json.loads(path.read_text("utf-8"))
        except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
            raise InputError(f"{path}: can't be read ({error}); expected a folder of `osml lab bench run`") from None
        schema = cast("dict[str, Any]", found).get("schema") if isinstance(found, dict) else None
        if schema != SCHEMA:
            raise InputError(
                f"{path}: schema is {schema!r}, expected '{SCHEMA}'; run the suite again with a new folder"
            )
        return cast("dict[str, Any]", found)

    @contextmanager
    def begun(self, settings: dict[str, Any], *, resume: bool) -> Generator[None]:
        """Make the folder, or find it again as this very version left it; until the end no other run may write in it.

        InputError where another run does, or where the folder holds something else.
        """
        try:
            if self._is_foreign():
                raise InputError(f"--out {self.folder} is not empty and has no results: choose another folder")
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = (self.folder / LOCK).open("a")
        except OSError as error:
            raise InputError(
                f"--out {self.folder} can't be created or read ({error.strerror}): choose another folder"
            ) from None
        with lock:
            take_for_this_process(lock, f"--out {self.folder}", "run: wait for its end")
            self._begin(settings, resume=resume)
            yield

    def _is_foreign(self) -> bool:
        """Whether the folder has files, but not of a run. A run that ended early leaves at most its lock."""
        if (self.folder / METADATA).exists() or not self.folder.exists():
            return False
        return any(entry.name != LOCK for entry in self.folder.iterdir())

    def _begin(self, settings: dict[str, Any], *, resume: bool) -> None:
        # Once, at the start: the files may change while a run goes on, its rows are of those that it was started with.
        settings |= _made_by()
        settings["failures"] = {}
        if (self.folder / METADATA).exists():
            before = self.metadata()
            if not resume:
                raise InputError(f"--out {self.folder} has results already: add --resume, or choose another folder")
            for key in ("code", "models", "profiles", "suite", "limit", "part", "levers"):
                now = settings.get(key)
                if before.get(key) != now:
                    raise InputError(
                        f"--out {self.folder} has {key} '{before.get(key)}', this run has '{now}': their rows "
                        "can't be compared; choose a new folder"
                    )
            known: dict[str, str] = before.get("policy_code", {})
            for name, now in settings["policy_code"].items():
                if known.get(name, now) != now:
                    raise InputError(
                        f"--out {self.folder} has rows of another version of policy '{name}'; choose a new folder"
                    )
            # The folder holds the rows of all calls, so its metadata speaks of all.
            settings["policy_code"] = known | settings["policy_code"]
            settings["seeds"] = max(int(before.get("seeds", 0)), int(settings["seeds"]))
            settings["wall_s"] = float(before.get("wall_s", 0.0))
            settings["failures"] = before.get("failures", {})
        self.describe(settings)
        try:
            self._parts.mkdir(exist_ok=True)
        except OSError as error:
            raise InputError(
                f"--out {self.folder} can't be written ({error.strerror}): choose another folder"
            ) from None

    def describe(self, settings: dict[str, Any]) -> None:
        """Write `metadata.json`."""
        described = {
            "schema": SCHEMA,
            "version": __version__,
            "simulated": True,
        }
        _replace(self.folder / METADATA, json.dumps(described | settings, indent=2).encode())

    def cases(self, index: int) -> set[Case]:
        """Which policies and seeds of a scenario are done."""
        return {_case(row) for row in _read(self._part(index), _ROW)}

    def add(self, done: Done) -> None:
        """Keep the rows of a unit, beside those of earlier runs; those of a case that is known are left out.

        Timelines come first, in the place of what a run that was killed left of the case: a row says that it is done.
        """
        known = self.cases(done.index)
        rows = [row for row in done.rows if _case(row) not in known]
        new = {_case(row) for row in rows}
        timeline = [line for line in done.timeline if _case(line) in new]
        if timeline:
            path = self._part(done.index, _TIMELINE_PARTS)
            _write(path, _TIMELINE, [*(line for line in _read(path, _TIMELINE) if _case(line) not in new), *timeline])
        if rows:
            _write(self._part(done.index), _ROW, [*_read(self._part(done.index), _ROW), *rows])

    def finish(self, settings: dict[str, Any]) -> None:
        """Put all parts together."""
        note = {b"osml.bench": json.dumps(self.metadata() | settings).encode()}
        for name, prefix, columns in ((RESULTS, "", _ROW), (TIMELINES, _TIMELINE_PARTS, _TIMELINE)):
            rows = self._gathered(prefix, columns)
            if rows:
                _write(self.folder / name, columns, rows, note)

    def results(self) -> list[Row]:
        """All rows: of the parts, for a run that was killed left no newer table; of the table where there are none."""
        return self._gathered("", _ROW) or _read(self.folder / RESULTS, _ROW)

    def timelines(self) -> list[Row]:
        """All rows of timelines; none where the suite keeps none."""
        return self._gathered(_TIMELINE_PARTS, _TIMELINE) or _read(self.folder / TIMELINES, _TIMELINE)

    def _gathered(self, prefix: str, columns: Columns) -> list[Row]:
        return [row for path in sorted(self._parts.glob(f"{prefix}[0-9]*.parquet")) for row in _read(path, columns)]

    def _part(self, index: int, prefix: str = "") -> Path:
        return self._parts / f"{prefix}{index:05d}.parquet"


def _case(row: Row) -> Case:
    return row["policy"], row["seed"]


def _read(path: Path, columns: Columns) -> list[Row]:
    if not path.exists():
        return []
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: can't be read as Parquet ({error}); remove the file and run with --resume") from None
    for name in _ADDED:  # folders of former versions have none
        if name in columns and name not in table.column_names:
            table = table.append_column(name, pa.nulls(table.num_rows, columns[name]))
    lacking = [name for name in columns if name not in table.column_names]
    if lacking:
        raise InputError(f"{path}: column '{lacking[0]}' is missing; another version of osml wrote the folder")
    return cast("list[Row]", table.select(list(columns)).to_pylist())


def _write(path: Path, columns: Columns, rows: Sequence[Row], note: dict[bytes, bytes] | None = None) -> None:
    plain: Iterable[Row] = ({name: row.get(name) for name in columns} for row in rows)
    table = pa.Table.from_pylist(list(plain), schema=pa.schema(list(columns.items())))
    _put(path, lambda partial: pq.write_table(table.replace_schema_metadata(note), partial, compression="zstd"))


def _replace(path: Path, content: bytes) -> None:
    _put(path, lambda partial: partial.write_bytes(content))


def _put(path: Path, write: Callable[[Path], object]) -> None:
    """Write beside the path and rename: whoever reads sees the old file or the new one. Failure where that can't be."""
    partial = path.with_suffix(".partial")
    try:
        write(partial)
        partial.replace(path)
    except OSError as error:
        raise Failure(f"{path}: can't be written ({error.strerror or error}); earlier results are stored") from None
