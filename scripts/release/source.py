"""What is released: the tracked files of a clean checkout, under one version that every part states."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import NamedTuple

from scripts.release.step import NotReleasedError, run


class Stated(NamedTuple):
    """A place that states the version: file, and the expression whose first group is the version."""

    file: str
    expression: str


STATED = (
    Stated("serving/pyproject.toml", r'(?m)^version = "(.+)"'),
    Stated("training/pyproject.toml", r'(?m)^version = "(.+)"'),
    Stated("serving/osml_serving/__init__.py", r'__version__ = "(.+)"'),
    Stated("actuator/CMakeLists.txt", r"project\(osml-agent VERSION (\S+)"),
    Stated("deploy/helm/osml/Chart.yaml", r"(?m)^version: (\S+)"),
    Stated("deploy/helm/osml/Chart.yaml", r"(?m)^appVersion: (\S+)"),
    Stated("deploy/helm/osml/values.yaml", r"(?m)^  tag: (\S+)"),
    Stated("deploy/kubernetes/kustomization.yaml", r"osml-server, newTag: ([^}\s]+)"),
    Stated("deploy/kubernetes/kustomization.yaml", r"osml-agent, newTag: ([^}\s]+)"),
    Stated("docs/how-to/kubernetes.md", r"osml-server:(\S+)"),
    Stated("docs/how-to/kubernetes.md", r"osml-agent:(\S+)"),
    Stated("CITATION.cff", r"(?m)^version: (\S+)"),
)


def version_of(root: Path) -> str:
    """The version in pyproject.toml; raises NotReleasedError where another place states another one."""
    version: str = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    for place in STATED:
        found = re.search(place.expression, (root / place.file).read_text("utf-8"))
        said = found[1] if found else "nothing"
        if said != version:
            raise NotReleasedError(
                f"{place.file} states version {said}, expected {version} as in pyproject.toml: change one of them"
            )
    return version


def changes_of(root: Path, version: str) -> str:
    """What the changelog says about a version; raises NotReleasedError where it has no dated heading for it."""
    text = (root / "CHANGELOG.md").read_text("utf-8")
    found = re.search(rf"(?ms)^## \[?{re.escape(version)}\]?(?: - (\d{{4}}-\d\d-\d\d))?$\n(.*?)(?=^## |\Z)", text)
    if found is None or found[1] is None:
        raise NotReleasedError(
            f"CHANGELOG.md has no heading `## {version} - YYYY-MM-DD`: give the part `Unreleased` this heading"
        )
    if not found[2].strip():
        raise NotReleasedError(f"CHANGELOG.md says nothing below the heading of {version}: write what changed")
    return found[2].strip()


def refuse_dirty(root: Path) -> None:
    """Raise NotReleasedError where a file is changed or not tracked."""
    changed = run(["git", "status", "--porcelain"], cwd=root).splitlines()
    if changed:
        raise NotReleasedError(
            f"the tree is not clean ({len(changed)} files, first `{changed[0].strip()}`): commit or remove them"
        )


def refuse_taken_tag(root: Path, version: str) -> None:
    """Raise NotReleasedError where the tag of the version exists."""
    if run(["git", "tag", "--list", f"v{version}"], cwd=root).strip():
        raise NotReleasedError(f"the tag v{version} exists: raise the version in pyproject.toml and the other places")


def tag(root: Path, version: str, changes: str, commit: str) -> None:
    """Make the annotated tag of the commit that was built; its message is what the changelog says."""
    message = f"osml {version}\n\n{changes}\n"
    run(["git", "tag", "--annotate", f"v{version}", "--cleanup=verbatim", "-m", message, commit], cwd=root)


def commit_of(root: Path) -> tuple[str, int]:
    """The commit, and its time in seconds since 1970."""
    name, seconds = run(["git", "show", "--no-patch", "--format=%H %ct", "HEAD"], cwd=root).split()
    return name, int(seconds)


def copy_tracked(root: Path, target: Path) -> int:
    """Copy the tracked files, as they are now, into `target`; returns their number. Nothing else gets into a build."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True).stdout
    names = [name for name in listed.decode().split("\0") if name and (root / name).is_file()]
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / name, target / name, follow_symlinks=False)
    return len(names)
