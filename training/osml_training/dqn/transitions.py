"""Model-C's tuples out of Model-A's traces (OSML section 4.3): pairs of rows of a run at most 3 cores and 3 ways apart.

A row holds one status and, for each of the 49 actions, the row of the status that it leads to: as many tuples as there
are actions whose cell was measured, at 10 bytes each. Rewards follow from the two statuses, so none is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osml.base.failure import InputError
from osml.base.whole_file import whole_file
from osml.datasets.arrow import pa, pc, pq
from osml.datasets.description import FileDescription, described, metadata
from osml.datasets.store import open_parquet, read_group, read_groups, trace_files
from osml.datasets.surfaces import SURELY, core_unit, grid_of, parted
from osml.predictors.actions import REACH
from osml_training.dqn.rewards import MOVES, Reward, costs_of, entropy_gain, intolerable, latency_gain
from osml_training.dqn.state import STATE, trace_state
from osml_training.tables.example_rows import TraceColumns
from osml_training.tables.runs import NoExamplesError, RunKey, fold_of, rates_of

Floats32 = NDArray[np.float32]
Ints = NDArray[np.int64]
Keep = Callable[[RunKey], bool]

TRANSITIONS_SCHEMA = "osml/transitions/v1"
NONE = -1
"""In `next`: that action leads to nothing that was measured."""

_KEYS = ("platform", "service", "run", "load", "threads", "neighbours")
_RATE = "offered_per_s"  # of runs whose load nobody knows
_FOLDS = 1_000_000


class Transitions(NamedTuple):
    """Statuses with where each action leads: `states` (rows, inputs), `next` (rows, 49) rows or NONE.

    `q_i` (rows,) is Q_i of Ah-Q: NaN where the latency is unknown, 1 where nobody was answered although many asked.
    `run` (rows,) numbers `runs`. `platform` is cores and ways of the machine.
    """

    states: Floats32
    next: NDArray[np.int32]
    q_i: Floats32
    run: NDArray[np.int32]
    runs: tuple[RunKey, ...]
    platform: tuple[int, int]

    @property
    def tuples(self) -> int:
        """How many <Status, Action, Status'> there are."""
        return int((self.next >= 0).sum())

    def column(self, name: str) -> Floats32:
        """One input of all statuses."""
        return self.states[:, STATE.index(name)]


class Tuples(NamedTuple):
    """Flat tuples <Status, Action, Reward, Status'>: (rows, inputs), (rows,), (rows,), (rows, inputs).

    `legal_after` (rows, 49) are the actions that were measured from Status'.
    """

    before: Floats32
    action: Ints
    reward: Floats32
    after: Floats32
    legal_after: NDArray[np.int8]


def next_rows(cells: Ints) -> NDArray[np.int32]:
    """(rows, 49) of one run whose rows lie in `cells` (rows, 2), both from 1: where each action leads.

    Of several samples in a cell the k-th leads to sample k + 1 of the other, in a circle: the noise of both is
    independent. Where the cell was not measured it is NONE.
    """
    rows = np.arange(len(cells))
    shape = cells.max(axis=0) + 1 + 2 * REACH
    flat = (cells[:, 0] + REACH) * shape[1] + cells[:, 1] + REACH
    order = np.argsort(flat, kind="stable")
    count = np.bincount(flat, minlength=int(shape[0] * shape[1]))
    first = np.concatenate([[0], np.cumsum(count)[:-1]])
    place = np.empty(len(cells), np.int64)
    place[order] = rows - first[flat[order]]
    to = flat[:, None] + (MOVES[:, 0] * shape[1] + MOVES[:, 1])[None, :]
    there = count[to]
    found = order[np.minimum(first[to] + (place[:, None] + 1) % np.maximum(there, 1), len(cells) - 1)]
    return np.where(there > 0, found, NONE).astype(np.int32)


def _starved(column: TraceColumns, latency: Floats32) -> NDArray[np.bool_]:
    """Rows where many requests came and none was answered."""
    return np.isnan(latency) & (column("offered_per_s") * column("interval_s") >= SURELY)


class _Run(NamedTuple):
    states: Floats32
    next: NDArray[np.int32]
    q_i: Floats32
    key: RunKey


def _with_rate(key: RunKey, rates: dict[str, float]) -> RunKey:
    return key if key.load is not None else key._replace(rate=rates.get(key.run))


def _runs_of(file: Path, chosen: set[str]) -> list[_Run]:
    """The chosen runs of a traces file.

    Left out are rows where cores or ways are not the service's own: there is nothing that an action could move.
    """
    parquet = open_parquet(file)
    about = described(parquet.schema_arrow.metadata, str(file))
    unit = core_unit(about.provenance.settings)
    shape = grid_of(about.platform, unit)
    held: dict[str, list[Any]] = {}
    for group in range(parquet.metadata.num_row_groups):
        table = read_group(parquet, file, group, None)
        for run in table.column("run").unique().to_pylist():
            if run in chosen:
                held.setdefault(run, []).append(table.filter(pc.equal(table.column("run"), run)))
    unknown = any(part.column("load").null_count for parts in held.values() for part in parts)
    rates = rates_of(file) if unknown else {}
    out: list[_Run] = []
    for parts in held.values():
        table = pa.concat_tables(parts)
        table = table.filter(pc.is_valid(table.column("ways")))
        table = table.filter(pa.array(parted(table, shape, unit)))
        if not table.num_rows:
            continue
        column = TraceColumns(table)
        latency = column.latency()
        cells = np.stack([np.rint(column("cores") / unit), column("ways")], axis=1).astype(np.int64)
        q_i = intolerable(latency / column("target_ms"))
        q_i = np.where(_starved(column, latency), np.float32(1), q_i)
        key = _with_rate(RunKey(*(table.column(name)[0].as_py() for name in _KEYS)), rates)
        out.append(_Run(trace_state(column, latency), next_rows(cells), q_i, key))
    return out


def transitions_of(
    datasets: Sequence[Path],
    keep: Keep | None = None,
    *,
    platform: str | None = None,
    statuses: int | None = None,
    seed: int = 0,
    on_progress: Callable[[Path], None] | None = None,
) -> Transitions:
    """The tuples of data sets of one platform: of the runs that `keep` says, and of so many of them that there are at
    most `statuses` statuses, chosen by `seed`. Raises InputError where there is none, or the platforms are several.
    """
    files = [file for folder in datasets for file in trace_files(folder, None if platform is None else (platform,))]
    about = about_of(files)
    chosen = _chosen(files, keep, statuses, seed)
    found: list[_Run] = []
    for file in files:
        found += _runs_of(file, chosen)
        if on_progress is not None:
            on_progress(file)
    return _joined(found, about)


def _chosen(files: Sequence[Path], keep: Keep | None, statuses: int | None, seed: int) -> set[str]:
    """Runs that `keep` says, in the order of a number that each has for ever, until there are `statuses` rows."""
    sizes = {key.run: rows for key, rows in _sizes(files).items() if keep is None or keep(key)}
    out: set[str] = set()
    rows = 0
    for run in sorted(sizes, key=lambda run: (fold_of(run, _FOLDS, seed), run)):
        if statuses is not None and rows + sizes[run] > statuses and out:
            break
        out.add(run)
        rows += sizes[run]
    return out


def _sizes(files: Sequence[Path]) -> dict[RunKey, int]:
    """The runs of traces files, with their rows."""
    sizes: dict[RunKey, int] = {}
    for file in files:
        for _, table in read_groups(file, list(_KEYS)):
            counted = table.group_by(list(_KEYS)).aggregate([([], "count_all")]).to_pylist()
            rates = rates_of(file) if table.column("load").null_count else {}
            for row in counted:
                key = _with_rate(RunKey(*(row[name] for name in _KEYS)), rates)
                sizes[key] = sizes.get(key, 0) + int(row["count_all"])
    return sizes


def runs_of(datasets: Sequence[Path], platform: str | None = None) -> list[RunKey]:
    """All runs of data sets, of one platform (None: of all)."""
    files = [file for folder in datasets for file in trace_files(folder, None if platform is None else (platform,))]
    return list(_sizes(files))


def about_of(files: Sequence[Path]) -> FileDescription:
    """What the files say of themselves; InputError where their platforms differ."""
    all_of = [described(open_parquet(file).schema_arrow.metadata, str(file)) for file in files]
    names = sorted({one.platform.id for one in all_of})
    if len(names) > 1:
        raise InputError(
            f"the data sets have platforms {', '.join(names)}, Model-C needs one; choose it with --platform"
        )
    return all_of[0]


def _joined(found: list[_Run], about: FileDescription) -> Transitions:
    machine = about.platform
    if machine.logical_cpus is None or machine.llc_ways is None:
        raise InputError(f"platform '{machine.id}' has no number of CPUs or no number of ways; Model-C needs both")
    if not found:
        raise NoExamplesError("no run of the data sets is left; collect more runs, or hold out fewer")
    sizes = [len(run.states) for run in found]
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    following = [
        np.where(run.next >= 0, run.next + np.int32(start), np.int32(NONE))
        for run, start in zip(found, starts, strict=True)
    ]
    return Transitions(
        np.concatenate([run.states for run in found]),
        np.concatenate(following),
        np.concatenate([run.q_i for run in found]),
        np.repeat(np.arange(len(found), dtype=np.int32), sizes),
        tuple(run.key for run in found),
        (machine.logical_cpus, machine.llc_ways),
    )


def rewards_of(found: Transitions, rows: Ints, actions: Ints, reward: Reward) -> Floats32:
    """Rewards of the tuples of `rows` and `actions` (any equal shapes); NaN where a latency was not known."""
    after, costs = found.next[rows, actions], costs_of(*found.platform, reward)[actions]
    if reward.kind == "latency":
        mean = found.column("mean_ms")
        return latency_gain(mean[rows], mean[after]) - costs
    return entropy_gain(found.q_i[rows], found.q_i[after], reward.cliff) - costs


def sample_tuples(found: Transitions, count: int, reward: Reward, rng: np.random.Generator) -> Tuples:
    """`count` tuples, each equally likely, with repetition; those without a reward are left out, so it may be fewer."""
    rows, actions = rng.integers(len(found.states), size=2 * count), rng.integers(len(MOVES), size=2 * count)
    known = np.nonzero(found.next[rows, actions] >= 0)[0]
    while len(known) < count:  # an eighth or so of the draws leads out of the grid
        rows = np.concatenate([rows, rng.integers(len(found.states), size=count)])
        actions = np.concatenate([actions, rng.integers(len(MOVES), size=count)])
        known = np.nonzero(found.next[rows, actions] >= 0)[0]
    rows, actions = rows[known[:count]], actions[known[:count]]
    given = rewards_of(found, rows, actions, reward)
    rows, actions, given = (values[~np.isnan(given)] for values in (rows, actions, given))
    after = found.next[rows, actions]
    return Tuples(found.states[rows], actions, given, found.states[after], (found.next[after] >= 0).astype(np.int8))


def write_transitions(file: Path, found: Transitions, about: FileDescription) -> None:
    """One Parquet file: the keys of the run, the inputs, `q_i` and `next`, a list of 49 rows of this file."""
    columns: dict[str, Any] = {
        name: pa.array([getattr(key, name) for key in found.runs]).take(pa.array(found.run)) for name in _KEYS
    }
    if any(key.rate is not None for key in found.runs):
        columns[_RATE] = pa.array([key.rate for key in found.runs], pa.float64()).take(pa.array(found.run))
    columns |= {name: pa.array(found.column(name), from_pandas=False) for name in STATE}
    columns["q_i"] = pa.array(found.q_i)
    columns["next"] = pa.FixedSizeListArray.from_arrays(pa.array(found.next.reshape(-1)), len(MOVES))
    table = pa.table(columns).replace_schema_metadata(metadata(TRANSITIONS_SCHEMA, about.provenance, about.platform))
    options: dict[str, Any] = {"compression": "zstd", "use_dictionary": [*_KEYS], "row_group_size": 65_536}
    with whole_file(file) as partial:
        pq.write_table(table, partial, **options)


def _opened(file: Path) -> tuple[Any, FileDescription, list[str]]:
    """A file of `write_transitions`, what it says of itself, and what it tells of its runs. InputError for others."""
    parquet = open_parquet(file)
    about = described(parquet.schema_arrow.metadata, str(file))
    there = parquet.schema_arrow.names
    missing = [name for name in (*_KEYS, *STATE, "q_i", "next") if name not in there]
    if about.schema != TRANSITIONS_SCHEMA or missing:
        raise InputError(
            f"{file}: schema '{about.schema}'{f', column {missing[0]!r} is missing' if missing else ''}, expected "
            f"'{TRANSITIONS_SCHEMA}' of `osml learn data transitions`"
        )
    return parquet, about, [*_KEYS, *([_RATE] if _RATE in there else [])]


def _columns(file: Path, parquet: Any, names: list[str]) -> Any:
    return pa.concat_tables(
        [read_group(parquet, file, group, names) for group in range(parquet.metadata.num_row_groups)]
    )


def _numbered(table: Any, told: list[str]) -> tuple[NDArray[np.int32], tuple[RunKey, ...]]:
    """The number of the run of each row, (rows,), and the runs by their numbers."""
    codes = table.column("run").combine_chunks().dictionary_encode()
    run: NDArray[np.int32] = codes.indices.to_numpy(zero_copy_only=False).astype(np.int32)
    first = np.unique(run, return_index=True)[1].tolist()
    return run, tuple(RunKey(*(table.column(name)[row].as_py() for name in told)) for row in first)


def runs_in_file(file: Path) -> tuple[RunKey, ...]:
    """The runs of a file of `write_transitions`, without their tuples. InputError for other files."""
    parquet, _, told = _opened(file)
    return _numbered(_columns(file, parquet, told), told)[1]


def read_transitions(file: Path, keep: Keep | None = None) -> Transitions:
    """The tuples of a file of `write_transitions`, of the runs that `keep` says. InputError for other files."""
    parquet, about, told = _opened(file)
    table = _columns(file, parquet, [*told, *STATE, "q_i", "next"])
    run, keys = _numbered(table, told)
    column = TraceColumns(table)
    following = table.column("next").combine_chunks().flatten().to_numpy().reshape(-1, len(MOVES))
    if len(following) != len(run) or following.max(initial=NONE) >= len(run) or following.min(initial=0) < NONE:
        raise InputError(f"{file}, column 'next': expected {len(MOVES)} rows of this file in each row")
    machine = about.platform
    if machine.logical_cpus is None or machine.llc_ways is None:
        raise InputError(f"platform '{machine.id}' has no number of CPUs or no number of ways; Model-C needs both")
    whole = Transitions(
        np.stack([column(name) for name in STATE], axis=1),
        following,
        column("q_i"),
        run,
        keys,
        (machine.logical_cpus, machine.llc_ways),
    )
    return whole if keep is None else of_runs(whole, np.array([keep(key) for key in keys]))


def of_runs(found: Transitions, chosen: NDArray[np.bool_]) -> Transitions:
    """Those of the runs for which `chosen` (runs,) is true; tuples never leave a run."""
    if not chosen.any():
        raise NoExamplesError("no run of the transitions is left; collect more runs, or hold out fewer")
    rows = chosen[found.run]
    number = np.cumsum(rows, dtype=np.int32) - 1
    following = found.next[rows]
    return Transitions(
        found.states[rows],
        np.where(following >= 0, number[following], np.int32(NONE)),
        found.q_i[rows],
        (np.cumsum(chosen, dtype=np.int32) - 1)[found.run[rows]],
        tuple(key for key, mine in zip(found.runs, chosen.tolist(), strict=True) if mine),
        found.platform,
    )
