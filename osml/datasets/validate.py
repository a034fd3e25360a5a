"""Checks a data set, or one of its files, for `osml learn data contribute` and for the server. It streams."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

from osml.base.failure import InputError
from osml.datasets.arrow import pc
from osml.datasets.checks.against_platform import check_description, check_rows, check_same
from osml.datasets.checks.columns import check_ranges, check_schema, has_columns
from osml.datasets.checks.constants import Constants
from osml.datasets.checks.duplicates import Duplicates
from osml.datasets.checks.finding import Finding, Place, Report
from osml.datasets.checks.labels import check_labels
from osml.datasets.checks.personal import check_document, check_metadata, check_text, own_names
from osml.datasets.checks.surfaces import check_surface
from osml.datasets.dataset import DatasetDescription, read_description
from osml.datasets.description import LICENCES, FileDescription, Fingerprint, Provenance, described
from osml.datasets.schema import PERCENTILES, TRACE_COLUMNS, TRACES_SCHEMA
from osml.datasets.store import (
    DATASET,
    KEYS,
    LABELS,
    OUTSIDE,
    SWEEP,
    TRACES,
    keys_of,
    labels_file,
    open_parquet,
    read_group,
)
from osml.datasets.surfaces import Surface, add_rows, core_unit, grid_of
from osml.domain.cpu_names import folder_name

MAX_GIB = 20.0
"""Of a contribution; beyond it, split it by platform."""

_TEXTS = ("run", "service", "platform", "percentile", "neighbour_names")
_KNOWN_FILES = {DATASET, SWEEP, "README.md", "checksums.sha256", "croissant.json"}


class Validator:
    """The state of a validation that spans files. `folder` is the data set; `root` what file names are relative to."""

    def __init__(self, root: Path, done: Callable[[Path], None] | None = None) -> None:
        self.root, self.report, self._done = root, Report(), done
        self.about: DatasetDescription | None = None  # what dataset.json says
        self.ordinary = frozenset[str]()  # names in the data that a machine may have, too
        self._duplicates = Duplicates()
        self._file_of_run: dict[str, str] = {}
        self._loads: dict[tuple[str, str], set[float]] = {}

    def name(self, file: Path) -> str:
        """A file as findings call it."""
        return file.relative_to(self.root).as_posix() if file.is_relative_to(self.root) else file.name

    def traces(self, file: Path, labels: Path | None = None) -> None:
        """Check one traces file and, where there are some, its labels."""
        place = Place(self.name(file))
        self.report.files += 1
        self.report.bytes += file.stat().st_size
        try:
            parquet = open_parquet(file)
            about = described(parquet.schema_arrow.metadata, place.file)
        except InputError as error:
            self.report.add([place.error(None, _without(str(error), file, place))])
            return
        keys = keys_of(file)
        self.ordinary |= _names([file], about.provenance, [about.platform])
        self.report.add(check_schema(parquet.schema_arrow, TRACE_COLUMNS, place))
        self.report.add(_check_keys(about, keys, place, self.ordinary))
        self.report.add(check_metadata(parquet.schema_arrow, place, self.ordinary))
        if self.about is not None:
            self.report.add(_check_described(self.about, about, place))
        usable = has_columns(parquet.schema_arrow, TRACE_COLUMNS)
        whole = usable  # every row group is in the surfaces
        constants, surfaces = Constants(), dict[str, Surface]()
        for group in range(parquet.metadata.num_row_groups):
            here = Place(place.file, group)
            try:
                table = read_group(parquet, file, group)
            except InputError as error:
                self.report.add([here.error(None, _without(str(error), file, place))])
                whole = False
                continue
            if len(table) == 0:
                self.report.add([here.warning(None, "row group without rows")])
                continue
            self.report.rows += len(table)
            whole = usable and self._group(table, about, here, keys, constants, surfaces) and whole
        self.report.add(constants.findings(place))
        self.report.runs += len(surfaces)
        for surface in surfaces.values():
            self.report.add(self._run(surface, place))
        if labels is not None and labels.exists():
            found = list(surfaces.values()) if whole else None
            self.report.add(check_labels(labels, Place(self.name(labels)), found, about, self.ordinary))
        if self._done is not None:
            self._done(file)

    def _group(
        self,
        table: Any,
        about: FileDescription,
        place: Place,
        keys: dict[str, str],
        constants: Constants,
        surfaces: dict[str, Surface],
    ) -> bool:
        """Check a row group, and add it to the surfaces of its runs; False where its numbers can't be."""
        found = [*check_ranges(table, TRACE_COLUMNS, place), *check_rows(table, about.platform, place)]
        noisy = bool(about.provenance.settings.get("noise", True))
        found += [*self._duplicates.add(table, place, noisy), *_check_texts(table, about, keys, place, self.ordinary)]
        found += self._leaks(table, place)
        self.report.add(found)
        constants.add(table)
        if any(finding.severity == "error" for finding in found):
            return False  # a surface of numbers that are wrong says nothing more
        try:
            unit = core_unit(about.provenance.settings)
            add_rows(surfaces, table, place.file, grid_of(about.platform, unit), unit, about.platform)
        except InputError as error:
            self.report.add([place.error(None, str(error).removeprefix(f"{place.file}, "))])
            return False
        self._count_loads(table)
        return True

    def _leaks(self, table: Any, place: Place) -> Iterator[Finding]:
        """Runs that were in an earlier file."""
        for run in pc.unique(table.column("run")).to_pylist():
            first = self._file_of_run.setdefault(run, place.file)
            if first != place.file:
                yield place.error("run", f"run {run} is also in {first}: a split by files or runs would leak")

    def _run(self, surface: Surface, place: Place) -> Iterator[Finding]:
        if surface.facts["target_ms"] is None:
            yield place.warning("target_ms", f"run {surface.run} has no target, so it gets no labels")
        yield from check_surface(surface, place)

    def _count_loads(self, table: Any) -> None:
        rates = pc.unique(pc.round(table.column("offered_per_s"), 3)).to_pylist()
        key = (table.column("platform")[0].as_py(), table.column("service")[0].as_py())
        known = self._loads.setdefault(key, set())
        if len(known) < 3:
            known.update(rate for rate in rates if rate is not None)

    def finish(self) -> Report:
        """After the last file."""
        for (platform, service), loads in sorted(self._loads.items()):
            if len(loads) < 2:
                text = "no known load" if not loads else f"only one load ({next(iter(loads)):g}/s)"
                message = f"service '{service}' on '{platform}' has {text}, so a model cannot learn other loads"
                self.report.add([Finding("warning", None, None, "offered_per_s", message)])
        if self.report.rows == 0:
            self.report.add([Finding("error", None, None, None, "the data set contains no readable row")])
        return self.report


def _without(message: str, file: Path, place: Place) -> str:
    return message.removeprefix(f"{file}: ").removeprefix(f"{place.file}: ")


def _check_keys(
    about: FileDescription, keys: dict[str, str], place: Place, ordinary: frozenset[str]
) -> Iterator[Finding]:
    """Metadata of a file in themselves and against its path."""
    if about.schema != TRACES_SCHEMA:
        yield place.error(None, f"osml.schema is '{about.schema}', expected '{TRACES_SCHEMA}'")
    if about.licence not in LICENCES:
        yield place.error(None, f"licence is '{about.licence}', expected one of {', '.join(LICENCES)}")
    if keys.get("platform", about.platform.id) != about.platform.id:
        yield place.error(
            "platform", f"the folder has platform {keys['platform']}, the description has {about.platform.id}"
        )
    yield from check_description(about.platform, about.provenance.kind, place)
    yield from check_document(about, place, ordinary)


def _programs(neighbours: str) -> frozenset[str]:
    """The names in `moses=0.4,be:stream`: as those of services, they are of programs."""
    return frozenset(part.partition("=")[0].removeprefix("be:") for part in neighbours.split(","))


def _names(files: list[Path], provenance: Provenance | None, platforms: list[Fingerprint]) -> frozenset[str]:
    """Names of services, of CPUs (and their words) and of what is simulated: none says where the data were made."""
    names = {keys["service"] for keys in map(keys_of, files) if "service" in keys}
    virtual = provenance is not None and provenance.kind == "virtual"
    names |= {one.id for one in platforms if virtual or one.id == folder_name(one.cpu_model or "")}
    names |= {word for one in platforms for word in re.split(r"\W+", one.cpu_model or "")}
    for value in provenance.settings.values() if provenance is not None and virtual else ():
        if isinstance(value, list):  # services, neighbours and jobs of the simulation
            names |= {name for name in cast(list[Any], value) if isinstance(name, str)}
    return frozenset(names)


def _check_described(dataset: DatasetDescription, about: FileDescription, place: Place) -> Iterator[Finding]:
    """What dataset.json says of a file against what the file says of itself."""
    known = {platform.id: platform for platform in dataset.platforms}.get(about.platform.id)
    if known is None:
        yield place.error(None, f"platform '{about.platform.id}' is missing in {DATASET}")
    else:
        yield from check_same(known, about.platform, place)
    for what, said, found in (
        ("provenance", dataset.provenance.kind, about.provenance.kind),
        ("licence", dataset.licence, about.licence),
    ):
        if said != found:
            yield place.error(None, f"{what} is '{found}' in this file, but '{said}' in {DATASET}")


def _check_texts(
    table: Any, about: FileDescription, keys: dict[str, str], place: Place, ordinary: frozenset[str]
) -> Iterator[Finding]:
    """Distinct texts of a row group: personal data, unknown words, rows of another platform or service."""
    for name in _TEXTS:
        for value in pc.unique(table.column(name)).to_pylist():
            if value is None:
                continue
            programs = _programs(value) if name == "neighbour_names" else frozenset[str]()
            yield from check_text(value, name, place, ordinary | programs)
            if name == "platform" and value != about.platform.id:
                yield place.error(name, f"rows of '{value}' in a file described as '{about.platform.id}'")
            if name == "service" and value != keys.get("service", value):
                yield place.error(name, f"rows of '{value}' in the folder of '{keys['service']}'")
            if name == "percentile" and value not in PERCENTILES:
                yield place.error(name, f"'{value}', expected one of {', '.join(PERCENTILES)}")
    if about.provenance.kind == "virtual" and about.provenance.seed is None:
        yield place.warning(None, "simulated without a seed, so the data cannot be reproduced")


def _dataset(
    folder: Path, report: Report, max_gib: float, about: DatasetDescription | None, ordinary: frozenset[str]
) -> DatasetDescription | None:
    """What is beside the traces. Returns what describes them, None where nothing readable does."""
    place = Place(DATASET)
    try:
        about = about or read_description(folder)
        if about.licence not in LICENCES:
            report.add([place.error(None, f"licence is '{about.licence}', expected one of {', '.join(LICENCES)}")])
        ordinary |= _names([], about.provenance, about.platforms)
        report.add(check_document(about, place, ordinary))
    except InputError as error:
        report.add([place.error(None, str(error))])
    size = 0
    for file in sorted(folder.rglob("*")):
        name = file.relative_to(folder).as_posix()
        report.add(check_text(name, None, Place(name), ordinary))
        if file.is_symlink():
            report.add([Place(name).error(None, "symbolic link, expected plain files")])
        elif file.is_file():
            size += file.stat().st_size
            inside = file.suffix == ".parquet" and name.split("/")[0] in (TRACES, LABELS)
            if name not in _KNOWN_FILES and not inside:
                report.add([Place(name).warning(None, "not a file of a data set; the package leaves it out")])
    if size > max_gib * 2**30:
        message = f"{size / 2**30:.1f} GiB, expected at most {max_gib:g}: contribute one platform at a time"
        report.add([Finding("error", None, None, None, message)])
    return about


def validate(
    path: Path,
    *,
    max_gib: float = MAX_GIB,
    done: Callable[[Path], None] | None = None,
    about: DatasetDescription | None = None,
    made_here: bool = True,
) -> Report:
    """Check a data set (a folder) or one traces file. Everything that is wrong is in the report; InputError only where
    there is nothing to look at. `about`: what dataset.json is going to say, in the place of what it says. `made_here`:
    False for the data of somebody else, in which the name of this machine is a word like any other.
    """
    names = frozenset[str]() if made_here else own_names()
    if path.is_file():
        validator = Validator(path.parent, done)
        validator.ordinary = names
        validator.traces(path)
        return validator.finish()
    if not path.is_dir():
        raise InputError(f"'{path}' is neither a folder nor a file")
    validator = Validator(path, done)
    files = sorted((path / TRACES).rglob("*.parquet"))
    validator.ordinary = names | _names(files, None, [])
    validator.about = _dataset(path, validator.report, max_gib, about, validator.ordinary)
    for file in files:
        if not KEYS.issubset(keys_of(file.relative_to(path))):
            validator.report.add([Place(validator.name(file)).error(None, OUTSIDE)])
        validator.traces(file, labels_file(path, file))
    for file in sorted(set((path / LABELS).rglob("*.parquet")) - {labels_file(path, file) for file in files}):
        validator.report.add([Place(validator.name(file)).error(None, "labels without a traces file of the same name")])
    return validator.finish()
