"""`osml lab simulator fit`: the free parameters of the services, from the published facts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track

from osml.base.failure import InputError
from osml.simulator import catalogs
from osml.simulator.calibration.catalog_text import with_fitted
from osml.simulator.calibration.facts import shipped_facts
from osml.simulator.calibration.fit import fit_service
from osml.simulator.models import ServiceModel


def fit(
    out: Annotated[Path, typer.Option(help="File to write the catalog of services to.")] = Path(
        "out/fit/services.yaml"
    ),
    service: Annotated[list[str] | None, typer.Option(help="Fit only this service; repeatable.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the fitted parameters as JSON.")] = False,
) -> None:
    """Fit the services to the published facts that are not held back, and write their catalog.

    No step is random: the same facts give the same catalog. The shipped catalog is the output of this command.
    """
    known = catalogs.service_names()
    for name in service or []:
        if name not in known:
            raise InputError(f"--service '{name}': unknown LC service, known are {', '.join(known)}")
    text = catalogs.shipped_text("services.yaml")
    fitted: dict[str, dict[str, ServiceModel]] = {}
    console = Console(stderr=True)
    for name in track(service or known, "Fitting", console=console, disable=not console.is_terminal):
        fitted[name] = fit_service(name, shipped_facts())
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(with_fitted(text, fitted), "utf-8")
    except OSError as error:
        raise InputError(f"--out {out}: cannot be written ({error.strerror})") from None
    if as_json:
        rows = [
            {
                "service": name,
                "platform": platform,
                "instructions": model.instructions,
                "cv2": model.cv2,
                "usable": model.usable,
                "disk_ios": model.disk_ios,
            }
            for name, models in fitted.items()
            for platform, model in models.items()
        ]
        typer.echo(json.dumps({"file": str(out), "deployments": rows}, indent=2))
    else:
        typer.echo(f"{out}: {sum(len(models) for models in fitted.values())} deployments of {len(fitted)} services")
