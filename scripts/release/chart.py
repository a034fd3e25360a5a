"""The Helm chart: packed, linted, and rendered into objects that Kubernetes' own schema accepts."""

from __future__ import annotations

from pathlib import Path

import kubernetes_validate
import yaml

from scripts.release.step import NotReleasedError, program, run

KUBERNETES = "1.33"


def build(source: Path, out: Path) -> tuple[Path, str]:
    """Pack the chart; returns its file, and how many objects it makes."""
    helm = program("helm", "helm (scripts/setup test builds it)")
    run([helm, "package", source / "deploy/helm/osml", "--destination", out])
    [chart] = out.glob("osml-*.tgz")
    run([helm, "lint", "--strict", chart])
    rendered = run([helm, "template", "osml", chart, "--namespace", "osml", "--kube-version", f"{KUBERNETES}.0"])
    objects = [one for one in yaml.safe_load_all(rendered) if one]
    for one in objects:
        try:
            kubernetes_validate.validate(one, KUBERNETES, strict=True)
        except kubernetes_validate.ValidationError as error:
            raise NotReleasedError(f"{one['kind']} {one['metadata']['name']} is not valid: {error.message}") from error
    return chart, f"{len(objects)} objects, valid for Kubernetes {KUBERNETES}"
