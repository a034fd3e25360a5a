"""Profiles of a live service: a command of the operator's reserves the bandwidth, drives the load and prints the tail.

How a service is driven, and how STREAM is started on the other cores, differs from site to site; what osml adds is
which rates and bandwidths to measure. The command is a list of arguments, no shell sees it.
"""

from __future__ import annotations

import math
import os
import shlex
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import cast

from osml.bandwidth import Profile, adaptive_lines, classic_lines
from osml.bandwidth.offline import EXIT_SHARE, SAMPLES_GBPS
from osml.base.failure import Failure, InputError
from osml.domain import Percentile
from osml.lab.kept_runs import KeptRuns
from osml.lab.ombm.profiling import Method

_SLOWER = 5.0  # times the length of a run: starting and stopping included
_STARTUP_S = 60.0


@dataclass
class CommandProfiler:
    """Runs `command` once for each measurement, {gbps} and {qps} in its words replaced.

    The last word that it prints is the tail in ms. Failure where it ends with an error, takes too long or prints no
    number; all its processes are ended then. What `kept` has of an earlier run is not measured again.
    """

    command: str
    run_s: float
    each: Callable[[], object] = field(default=lambda: None)
    kept: KeptRuns | None = None
    measured: int = 0

    def __post_init__(self) -> None:
        try:
            self._words = shlex.split(self.command)
        except ValueError as error:
            raise InputError(f"--measure '{self.command}': {error}") from None
        if not any("{gbps}" in word for word in self._words) or not any("{qps}" in word for word in self._words):
            raise InputError(
                f"--measure '{self.command}' must contain {{gbps}} (bandwidth) and {{qps}} (rate), as in "
                "'measure.sh --gbps {gbps} --qps {qps}'"
            )

    def __call__(self, bandwidth_gbps: float, qps: float) -> float:
        """Tail in ms of one run."""
        key = (self.measured, bandwidth_gbps, qps)
        if self.kept is None:
            tail = self._measure(bandwidth_gbps, qps)
        elif key in self.kept.found:
            tail = float(self.kept.found[key])
        else:
            tail = self._measure(bandwidth_gbps, qps)
            self.kept.add(key, tail)
        self.measured += 1
        self.each()
        return tail

    def _measure(self, bandwidth_gbps: float, qps: float) -> float:
        values = {"{gbps}": f"{bandwidth_gbps:.6g}", "{qps}": f"{qps:.6g}"}
        words: list[str] = []
        for word in self._words:
            for name, value in values.items():
                word = word.replace(name, value)  # noqa: PLW2901 - both may stand in one word
            words.append(word)
        said = " ".join(words)
        patience_s = _STARTUP_S + _SLOWER * self.run_s
        try:
            child = subprocess.Popen(
                words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
            )
        except OSError as error:
            raise Failure(f"'{said}' could not be run: {error}") from None
        try:
            printed, complaints = child.communicate(timeout=patience_s)
        except subprocess.TimeoutExpired:
            raise Failure(f"'{said}' did not end within {patience_s:g} s") from None
        finally:
            _end_session(child)
        if child.returncode:
            raise Failure(f"'{said}' ended with status {child.returncode}: {complaints.strip()[-300:]}")
        return _tail_ms(printed, said)


def _end_session(leader: subprocess.Popen[str]) -> None:
    """End a command and what it started and left: STREAM or a load generator would spoil the next measurement."""
    with suppress(ProcessLookupError, PermissionError):  # what sudo started belongs to root
        os.killpg(leader.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        leader.wait(_STARTUP_S)


def _tail_ms(printed: str, said: str) -> float:
    words = printed.split()
    try:
        found = float(words[-1])
    except (IndexError, ValueError):
        found = math.nan
    if not (math.isfinite(found) and found > 0):
        raise Failure(f"'{said}' printed '{printed.strip()[-80:]}', expected the tail in ms as its last word")
    return found


@dataclass(frozen=True)
class LiveSetting:
    """What osml can't know of a live service."""

    service: str
    platform: str
    peak_gbps: float
    rates: tuple[float, float]
    cores: int
    ways: int
    percentile: str
    core_quantum: float = 1.0


def profile_live(
    profiler: CommandProfiler,
    setting: LiveSetting,
    method: Method = "adaptive",
    *,
    samples_gbps: Sequence[float] = SAMPLES_GBPS,
    exit_share: float = EXIT_SHARE,
    profilings: int,
) -> Profile:
    """A profile measured by the operator's command. Samples above the peak are left out, unless they were asked for."""
    low, high = setting.rates
    usable = [gbps for gbps in samples_gbps if gbps <= setting.peak_gbps]
    if not usable or (len(usable) < len(samples_gbps) and tuple(samples_gbps) != SAMPLES_GBPS):
        raise InputError(f"--bandwidths has {max(samples_gbps):g} GB/s, expected values up to {setting.peak_gbps:g}")
    if method == "classic":
        lines = classic_lines(profiler, usable, low, high, exit_share)
    else:
        least = min(samples_gbps)
        lines = adaptive_lines(profiler, setting.peak_gbps, low, high, profiler.run_s, profilings, least)
    return Profile(
        service=setting.service,
        platform=setting.platform,
        method=method,
        percentile=cast(Percentile, setting.percentile),
        cores=setting.cores,
        ways=setting.ways,
        peak_gbps=setting.peak_gbps,
        lines=lines,
        simulated=False,
        run_s=profiler.run_s,
        core_quantum=setting.core_quantum,
        source=f"{profiler.measured} runs of {profiler.run_s:g} s by '{profiler.command}'"[:500],
    )
