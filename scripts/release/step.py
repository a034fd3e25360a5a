"""Steps of a release: each is timed, and says in one sentence what it found."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType


class NotReleasedError(Exception):
    """What stands in the way of the release, and what to do about it: one sentence."""


@dataclass
class Report:
    """What each step found, and its seconds."""

    steps: list[tuple[str, float, str]] = field(default_factory=list)

    def step(self, name: str) -> Step:
        """A step that begins now."""
        return Step(self, name)


class Step(AbstractContextManager["Step"]):
    """`with report.step(name) as step`: prints when it begins and how it ended. `step.found` is the finding."""

    def __init__(self, report: Report, name: str) -> None:
        self._report, self._name, self._began, self.found = report, name, time.monotonic(), "done"

    def __enter__(self) -> Step:
        self._began = time.monotonic()
        print(f"     {self._name} ...", flush=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        seconds = time.monotonic() - self._began
        if error is None:
            self._report.steps.append((self._name, round(seconds, 1), self.found))
        print(f"{'FAIL' if error else 'ok  '} {self._name}: {error or self.found} ({seconds:.0f} s)", flush=True)


def run(
    command: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float = 1800,
    codes: Sequence[int] = (0,),
) -> str:
    """Run a command to its end, and return its standard output.

    Raises NotReleasedError with the last lines that it said, where its exit code is none of `codes`.
    """
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words, cwd=cwd, env=env, capture_output=True, text=True, errors="replace", check=False, timeout=timeout_s
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotReleasedError(f"`{' '.join(words)[:200]}` could not run to its end: {error}") from error
    if done.returncode not in codes:
        said = (done.stderr.strip() or done.stdout.strip())[-2000:]
        raise NotReleasedError(f"`{' '.join(words)[:200]}` ended with code {done.returncode}:\n{said}")
    return done.stdout


def program(name: str, package: str) -> str:
    """Path of a program that the release needs; raises NotReleasedError where it is not installed."""
    places = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", str(Path.cwd() / ".tools/bin")])
    found = shutil.which(name, path=places)
    if found is None:
        raise NotReleasedError(f"{name} is not installed, expected it on the path: install {package}")
    return found


def clean_environment() -> dict[str, str]:
    """Variables of a process that shall know nothing of this checkout or its Python environment."""
    kept = ("HOME", "LANG", "TMPDIR", "PIP_CERT", "SSL_CERT_FILE", "PIP_INDEX_URL", "UV_INDEX_URL", "XDG_CACHE_HOME")
    proxies = ("http_proxy", "https_proxy", "no_proxy")
    kept += (*proxies, *(name.upper() for name in proxies))
    found = {name: os.environ[name] for name in kept if name in os.environ}
    return found | {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "TERM": "dumb"}
