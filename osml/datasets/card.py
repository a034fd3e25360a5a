"""The card of a contributed data set, and its description as Croissant (JSON-LD), both made of the files themselves."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from osml.datasets.checks.finding import Report
from osml.datasets.dataset import DatasetDescription
from osml.datasets.description import Fingerprint
from osml.datasets.schema import TRACE_COLUMNS


class Packed(NamedTuple):
    """One file of a package."""

    path: str
    sha256: str
    bytes: int
    rows: int


def _size_category(rows: int) -> str:
    steps = ((10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"), (10**7, "1M<n<10M"))
    return next((name for limit, name in steps if rows < limit), "n>10M")


def _front_matter(about: DatasetDescription, report: Report, splits: Sequence[str]) -> str:
    lines = [
        "---",
        f"license: {about.licence.lower()}",
        f"pretty_name: {about.name}",
        "tags: [scheduling, cache-partitioning, tail-latency, performance-counters]",
        "annotations_creators: [machine-generated]",
        f"size_categories: [{_size_category(report.rows)}]",
        "configs:",
    ]
    for name in splits:
        lines += [f"  - config_name: {name}", f"    data_files: {name}/**/*.parquet"]
    return "\n".join([*lines, "---", ""])


def _machine(platform: Fingerprint) -> str:
    """A platform as a row of the table."""
    cells = [
        platform.id,
        platform.cpu_model,
        platform.stepping,
        platform.microcode,
        platform.kernel,
        platform.logical_cpus,
        platform.smt,
        platform.governor,
        platform.llc_mib,
        platform.llc_ways,
        platform.bandwidth_gbps,
    ]
    return "| " + " | ".join("-" if cell is None else str(cell) for cell in cells) + " |"


_MACHINE_HEAD = (
    "| id | CPU | stepping | microcode | kernel | CPUs | SMT | governor | LLC MiB | ways | GB/s |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|\n"
)


_LIMITS = {
    "virtual": "Not as evidence about a real machine: it was simulated.",
    "real": "Latencies are those of this processor and this kernel, beside whatever else ran.",
}


def card(about: DatasetDescription, report: Report, files: Sequence[Packed]) -> str:
    """README.md with the seven heads of *Datasheets for Datasets*."""
    kind = "simulated by the virtual node (no real machine)" if about.provenance.kind == "virtual" else "measured"
    settings = "\n".join(f"- `{key}`: {value}" for key, value in sorted(about.provenance.settings.items()))
    machines = "\n".join(_machine(platform) for platform in about.platforms)
    folders = sorted({file.path.split("/")[0] for file in files if file.path.endswith(".parquet")})
    warnings = "\n".join(f"- {finding.message}" for finding in report.findings[:20]) or "- none"
    seed = "" if about.provenance.seed is None else f", seed {about.provenance.seed}"
    return f"""{_front_matter(about, report, folders)}
# {about.name}

Allocation cases of latency-critical services: cores, cache ways, counters, latency. The rows were **{kind}**.

## Motivation

{about.description or "Traces to train and to judge schedulers of cores, cache ways and memory bandwidth."}

## Composition

{report.rows:,} rows of {report.runs:,} runs in {report.files} files. One row is one interval of one service under one
allocation; a run is one service under one load with one set of neighbours. Columns with units: `cases.schema.json` of
the osml project. Null is *not measured*, never 0.

{_MACHINE_HEAD}{machines}

## Collection

{about.provenance.program} {about.provenance.version}{seed}.

{settings}

## Preprocessing and labels

Labels, where there are some, were made by `osml learn data label` from the mean latency of each cell, by no person.

## Uses

Training and comparing resource schedulers. Hold out by run, service or platform, never by rows: samples of a cell are
near copies. {_LIMITS[about.provenance.kind]}

## Distribution

Licence: {about.licence}. Contributor: {about.contributor or "not named"}. Checksums: `checksums.sha256`.

## Maintenance

Findings of `osml learn data validate` when it was packed:

{warnings}
"""


_CROISSANT_TYPES = {"string": "sc:Text", "int32": "sc:Integer", "int64": "sc:Integer", "float32": "sc:Float"}


def croissant(about: DatasetDescription, files: Sequence[Packed], content: str) -> bytes:
    """Croissant 1.1: files with checksums, columns with types and units. `content` is the checksum of all checksums.

    It can't be the id of the package, which has this file in it.
    """
    document: dict[str, Any] = {
        "@context": {
            "@vocab": "https://schema.org/", "sc": "https://schema.org/", "cr": "http://mlcommons.org/croissant/",
            "dct": "http://purl.org/dc/terms/", "conformsTo": "dct:conformsTo", "recordSet": "cr:recordSet",
            "field": "cr:field", "dataType": {"@id": "cr:dataType", "@type": "@vocab"}, "source": "cr:source",
            "extract": "cr:extract", "column": "cr:column", "fileSet": "cr:fileSet", "includes": "cr:includes",
            "containedIn": "cr:containedIn", "fileObject": "cr:fileObject",
        },
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.1",
        "name": about.name,
        "description": about.description or "Allocation cases of latency-critical services",
        "license": f"https://spdx.org/licenses/{about.licence}.html",
        "creator": {"@type": "sc:Person", "name": about.contributor or "not named"},
        "datePublished": about.created,
        "version": about.provenance.version,
        "url": f"urn:sha256:{content}",
        "distribution": [
            *(
                {
                    "@type": "cr:FileObject", "@id": file.path, "name": file.path, "contentUrl": file.path,
                    "encodingFormat": "application/x-parquet", "sha256": file.sha256, "contentSize": f"{file.bytes} B",
                }
                for file in files
                if file.path.endswith(".parquet")
            ),
            {
                "@type": "cr:FileSet", "@id": "traces", "name": "traces", "includes": "traces/**/*.parquet",
                "encodingFormat": "application/x-parquet",
            },
        ],
        "recordSet": [
            {
                "@type": "cr:RecordSet", "@id": "cases", "name": "cases",
                "field": [
                    {
                        "@type": "cr:Field", "@id": f"cases/{column.name}", "name": column.name,
                        "description": column.meaning + (f" [{column.unit}]" if column.unit else ""),
                        "dataType": _CROISSANT_TYPES[column.type],
                        "source": {"fileSet": {"@id": "traces"}, "extract": {"column": column.name}},
                    }
                    for column in TRACE_COLUMNS
                ],
            }
        ],
    }  # fmt: skip
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


def checksums(files: Sequence[Packed]) -> str:
    """As `sha256sum -c` reads them."""
    return "".join(f"{file.sha256}  {file.path}\n" for file in sorted(files))


def write_card(folder: Path, about: DatasetDescription, report: Report, files: Sequence[Packed]) -> None:
    """README.md, croissant.json and checksums.sha256 of a package."""
    sums = checksums(files)
    (folder / "checksums.sha256").write_text(sums, "utf-8")
    (folder / "README.md").write_text(card(about, report, files), "utf-8")
    (folder / "croissant.json").write_bytes(croissant(about, files, hashlib.sha256(sums.encode()).hexdigest()))
