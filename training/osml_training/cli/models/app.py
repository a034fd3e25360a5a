"""`osml learn models`: shipped and registered models."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table

from osml.base.failure import InputError
from osml.predictors import load_manifest, models_folder, read_metadata
from osml.predictors.manifest import verify_entry
from osml.predictors.metadata import CARD
from osml_training.cli.extra import need
from osml_training.cli.models.published import import_command
from osml_training.cli.models.rollback import rollback_command

app = typer.Typer(help="List, show, promote and fetch models.", no_args_is_help=True, pretty_exceptions_enable=False)
app.command("import-published")(import_command)
app.command("rollback")(rollback_command)

Folder = Annotated[Path | None, typer.Option("--models", help="Folder of models.", show_default="the shipped models")]
Uri = Annotated[str, typer.Option("--uri", help="MLflow: sqlite:///FILE or the address of a server.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
_DEFAULT_URI = "sqlite:///out/mlflow.db"


def _print(document: dict[str, Any]) -> None:
    sys.stdout.write(msgspec.json.encode(document).decode() + "\n")


def _folder(given: Path | None) -> Path:
    """The folder of models. InputError where the given one, or that of OSML_MODELS, is none."""
    folder, name = (models_folder(), "OSML_MODELS") if given is None else (given, "--models")
    if not folder.is_dir():
        raise InputError(f"{name} is {folder}, which is no folder; expected a folder of models")
    return folder


def shipped(folder: Path) -> list[dict[str, Any]]:
    """The models of a folder, their files checked against the manifest."""
    out: list[dict[str, Any]] = []
    for entry in load_manifest(folder).models:
        verify_entry(folder, entry)
        metadata = read_metadata(folder / entry.name)
        out.append(
            {
                "name": entry.name,
                "version": entry.version,
                "aliases": ["shipped"],
                "platform": entry.platform,
                "kind": entry.kind,
                "variant": entry.variant,
                "sha256": entry.sha256.get("model.onnx"),
                "dataset_fingerprint": entry.dataset_fingerprint,
                "metrics": metadata.metrics,
            }
        )
    return out


def _error(model: dict[str, Any]) -> str:
    """The first row of table 5, for a list; of Model-C' the error of the logarithm in the present cell."""
    if model["kind"] == "c2":
        row = next((r for r in model["metrics"].get("cells", []) if r["by"] == "model"), None)
        return "" if row is None else f"log ratio {row['mae']:.3f}"
    rows = model["metrics"].get("rows") if isinstance(model["metrics"].get("rows"), list) else None
    if not rows:  # of a registered version, whose metrics are single numbers
        return ""
    if model["kind"] == "c":
        row = next((r for r in rows if (r["policy"], r["split"]) == ("model", "seen")), rows[0])
        return f"{row['crossings']:.3g} falls in 10,000"
    rows = [row for row in rows if row["core_mae"] is not None]  # None: no label, or of B none above 0
    if not rows:
        return ""
    row = rows[-1] if rows[-1]["split"] == "seen" else next((r for r in rows if r["split"] != "unseen"), rows[0])
    ways = "" if row["way_mae"] is None else f" / {row['way_mae']:.2f}"
    return f"{row['output']} {row['core_mae']:.2f}{ways}"


@app.command("list")
def list_command(
    models: Folder = None,
    uri: Annotated[str | None, typer.Option("--uri", help="List the registered models of MLflow, too.")] = None,
    json: Json = False,
) -> None:
    """List the shipped models and verify their checksums; with --uri also the registered models."""
    folder = _folder(models)
    found = shipped(folder)
    if uri is not None:
        need("mlflow")
        from osml_training.registry.versions import versions  # noqa: PLC0415

        found += versions(uri)
    if json:
        _print({"models": found})
        return
    table = Table(title=f"Models of {folder}", title_justify="left")
    for name in ("name", "version", "aliases", "platform", "sha256", "error (cores / ways), falls"):
        table.add_column(name, no_wrap=name in ("name", "platform", "sha256"))
    for model in found:
        table.add_row(
            model["name"],
            model["version"],
            ", ".join(model["aliases"]),
            model["platform"] or "",
            (model["sha256"] or "")[:8],
            _error(model),
        )
    Console().print(table)


@app.command("show")
def show_command(
    name: Annotated[str, typer.Argument(help="Name of a model.")], models: Folder = None, json: Json = False
) -> None:
    """Print the card of a model; with --json its metadata."""
    folder = _folder(models)
    entry = next((found for found in load_manifest(folder).models if found.name == name), None)
    if entry is None:
        known = ", ".join(found.name for found in load_manifest(folder).models) or "none"
        raise InputError(f"{folder} has no model '{name}', expected one of {known}")
    verify_entry(folder, entry)
    if json:
        _print(msgspec.to_builtins(read_metadata(folder / name)))
        return
    card = (folder / name / CARD).read_text("utf-8")
    Console().print(Markdown(card.split("---\n", 2)[-1]))  # without the front matter


@app.command("promote")
def promote_command(
    name: Annotated[str, typer.Argument(help="Registered name, such as osml-a-e5-2697v4.")],
    version: Annotated[str, typer.Argument(help="Version number, or an alias such as challenger.")] = "challenger",
    alias: Annotated[str, typer.Option(help="Alias to move.")] = "champion",
    uri: Uri = _DEFAULT_URI,
    json: Json = False,
) -> None:
    """Move the alias `champion` to a version. To roll back, promote the previous version."""
    need("mlflow")
    from osml_training.registry.versions import promote  # noqa: PLC0415

    found = promote(uri, name, version, alias)
    if json:
        _print({"name": name, "version": found, "alias": alias})
        return
    Console().print(f"{name} version {found} is now {alias}", highlight=False)


@app.command("pull")
def pull_command(
    name: Annotated[str, typer.Argument(help="Registered name, such as osml-a-e5-2697v4.")],
    version: Annotated[str, typer.Argument(help="Version number or alias.")] = "champion",
    out: Annotated[Path, typer.Option(help="Folder of models.")] = Path("out/models"),
    uri: Uri = _DEFAULT_URI,
    json: Json = False,
) -> None:
    """Download a registered version (ONNX file, metadata, card), check it and add it to a folder of models."""
    need("mlflow", "onnxruntime")
    from osml_training.registry.versions import pull  # noqa: PLC0415

    done = pull(uri, name, version, out)
    if json:
        _print({"name": name, "version": version, "folder": str(done.folder), "warnings": done.warnings})
        return
    Console().print(f"{name} {version} is in {done.folder}", highlight=False)
    for warning in done.warnings:
        print(f"osml: {warning}", file=sys.stderr)


@app.command("sync")
def sync_command(uri: Uri = _DEFAULT_URI, json: Json = False) -> None:
    """Store the trainings that ran while MLflow was not reachable."""
    need("mlflow", "onnx")
    from osml_training.registry.tracking import synchronise  # noqa: PLC0415

    stored = synchronise(uri)
    if json:
        _print({"stored": stored})
        return
    Console().print(f"{len(stored)} stored: {', '.join(stored) or 'no run was waiting'}", highlight=False)
