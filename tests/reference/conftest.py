"""Boots each machine once, two at a time, and hands the transcript of its scenario to the tests."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from osml.base.agent_binary import find_agent
from osml.base.failure import Failure
from tests.reference.decisions import write_node
from tests.reference.profiles import Profile
from tests.reference.transcript import Transcript

HERE = Path(__file__).resolve().parent
VM = HERE.parents[2] / "shared/resctrl/vm/vm.sh"  # beside the checkout
CRASHED = re.compile(r"vm\.sh: line \d+: +\d+ Segmentation fault")  # of the emulator: what runs inside is on stdout
BOOT_LIMIT_S = 900
"""A scenario takes 15 s on an idle machine; beside a build and other tests it took more than 240 s."""


@dataclass
class Boot:
    """One machine after its scenario."""

    profile: Profile
    transcript: Transcript
    seconds: float


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.reference)
            item.add_marker(pytest.mark.timeout(3 * BOOT_LIMIT_S))


@pytest.fixture(scope="session")
def agent() -> Path:
    """The agent's binary, on a host that can boot the reference machines."""
    if not VM.is_file():
        pytest.skip(f"no reference material: {VM} does not exist")
    if shutil.which("qemu-system-x86_64") is None:
        pytest.skip("qemu-system-x86_64 is not installed (Debian: qemu-system-x86)")
    try:
        return find_agent(None)
    except Failure as failure:
        pytest.skip(str(failure))


@dataclass(frozen=True)
class CrashSteps:
    """After how many steps the agent is killed: in the very first apply, and between two divisions."""

    first: tuple[int, ...]
    change: tuple[int, ...]


def crash_steps(profile: Profile) -> CrashSteps:
    """Steps of the first: groups, masks, bandwidth, tasks, CPUs, in this order; only CPUs, quota, weight without."""
    if profile.allocation is None:
        return CrashSteps(first=(1, 3), change=(1, 2, 3))
    return CrashSteps(first=(1, 4, 8, 12, 16), change=(1, 2, 3, 5, 8))


def facts(profile: Profile, agent: Path, refused: list[str]) -> str:
    """What scenario.sh has to know, as shell assignments."""
    crash = crash_steps(profile)
    values = {
        "AGENT": str(agent.resolve()),
        "PYTHON": str(Path(sys.executable).resolve()),
        "REFUSED": " ".join(refused),
        "CRASH_FRESH": " ".join(map(str, crash.first)),
        "CRASH_CHANGE": " ".join(map(str, crash.change)),
    }
    if profile.allocation:
        whole = (1 << profile.can.ways) - 1
        values["ROOT_LINE"] = f"L3:0={whole & ~3:x};1={whole & ~3:x}"
        values["OTHER_LINE"] = "L3:0=3;1=3"
    return "".join(f"{name}={shlex.quote(value)}\n" for name, value in values.items())


def run_machine(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run vm.sh; a second time where the emulator itself has crashed, which says nothing of what runs inside."""
    for _ in range(2):
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        if not CRASHED.search(done.stderr):
            break
    return done


def run_scenario(profile: Profile, agent: Path, directory: Path) -> Boot:
    """Boot, run the scenario, power off."""
    directory.mkdir()
    (directory / "facts").write_text(facts(profile, agent, write_node(directory, profile)))
    command = [str(VM), "-k", profile.kernel, "-p", profile.name, "-t", str(BOOT_LIMIT_S), "--"]
    start = time.monotonic()
    done = run_machine([*command, "bash", str(HERE / "scenario.sh"), str(directory)])
    seconds = time.monotonic() - start
    (directory / "transcript").write_text(done.stdout)
    (directory / "errors").write_text(done.stderr)
    transcript = Transcript(done.stdout)
    if done.returncode != 0 or transcript.steps["scenario"].code != 0:
        raise RuntimeError(
            f"the scenario on {profile} did not end well (exit code {done.returncode}): {done.stderr}\n"
            f"{done.stdout[-4000:]}"
        )
    return Boot(profile, transcript, seconds)


@pytest.fixture(scope="session")
def boots(
    request: pytest.FixtureRequest, agent: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterable[dict[Profile, Future[Boot]]]:
    """Every machine that a collected test asks for, in the order of the tests."""
    wanted: dict[Profile, None] = {}
    for item in request.session.items:
        callspec = getattr(item, "callspec", None)  # None: a test without parameters
        profile = callspec.params.get("boot") if callspec else None
        if isinstance(profile, Profile):
            wanted[profile] = None
    base = tmp_path_factory.mktemp("reference")
    with ThreadPoolExecutor(max_workers=min(2, os.cpu_count() or 1)) as pool:
        yield {profile: pool.submit(run_scenario, profile, agent, base / str(profile)) for profile in wanted}
        pool.shutdown(cancel_futures=True)


@pytest.fixture
def boot(request: pytest.FixtureRequest, boots: dict[Profile, Future[Boot]]) -> Boot:
    """The machine of this test."""
    return boots[request.param].result()
