"""`osml lab simulator mount`: lays out the directory of a node, runs it in compressed or real time, cleans up."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import stat
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import urlsplit

import msgspec

from osml.base.failure import InputError, MachineError
from osml.base.sole_use import take_for_this_process
from osml.simulator import catalogs
from osml.simulator.board import MOST_SOCKETS, domain_count
from osml.simulator.engine import MAX_LOAD
from osml.simulator.kernel.machine import Machine
from osml.simulator.mix import loads_on
from osml.simulator.models import on_platform
from osml.simulator.mount import fuse_files
from osml.simulator.mount.agent_config import agent_config
from osml.simulator.mount.plain_files import PlainExport
from osml.simulator.mount.simulation import Simulation
from osml.simulator.mount.telemetry import TelemetryFiles
from osml.simulator.state import Node, NodeInputError

MAX_SPEED = 100.0
_POLL_S = 0.005
_LOADS_EVERY_S = 0.02
_MOST_LOADS_BYTES = 1 << 20
_ROOTS = ("resctrl", "cgroup", "sys", "proc")
_KERNEL = ".kernel"
_MARKER = ".osml-virtual"


@dataclass(frozen=True)
class MountOptions:
    """What `osml lab simulator mount` was asked for. `loads` are fractions of max load by service."""

    folder: Path
    platform: str
    loads: Mapping[str, float]
    jobs: tuple[str, ...] = ()
    speed: float = 1.0
    seed: int = 0
    interval_s: float = 1.0
    fuse: Literal["auto", "on", "off"] = "auto"
    duration_s: float | None = None
    server_url: str = "http://127.0.0.1:8080"
    policy: str | None = None
    sockets: int = 1


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port or an IPv6 address that can't be
        return False


def build_node(options: MountOptions) -> Node:
    """The node out of the catalogs; InputError names what is unknown or out of range."""
    for name, value, low, high in (
        ("--speed", options.speed, 0.0, MAX_SPEED),
        ("--interval", options.interval_s, 0.0, 60.0),
        ("--duration", options.duration_s if options.duration_s is not None else 1.0, 0.0, math.inf),
    ):
        if not (low < value <= high):
            raise InputError(f"{name} is {value}, expected a number above {low:g} and up to {high:g}")
    if not _is_address(options.server_url):
        raise InputError(f"--server-url is '{options.server_url}', expected an address like http://127.0.0.1:8080")
    if not 1 <= options.sockets <= MOST_SOCKETS:
        raise InputError(f"--sockets is {options.sockets}, expected 1 to {MOST_SOCKETS}")
    try:
        platform = catalogs.platform(options.platform)
        domain_count(platform, options.sockets)
        services = tuple(catalogs.service(name, options.platform) for name in options.loads)
        jobs = tuple(on_platform(catalogs.job(name), platform) for name in options.jobs)
        return Node(platform, services, jobs)
    except ValueError as error:  # of the catalogs, of the node, of its sockets
        raise InputError(str(error)) from None


def _write_whole(path: Path, text: str) -> None:
    """Put a file in place in one step, so that nobody reads half of it."""
    draft = path.with_name(f".{path.name}.new")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)


def _content(path: Path) -> bytes:
    """A regular file of bounded size; NodeInputError for anything else. A pipe that nobody writes must not stop us."""
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:  # not `open`, which loses the number of a directory
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise NodeInputError("expected a regular file")
        content = os.read(number, _MOST_LOADS_BYTES + 1)
    finally:
        os.close(number)
    if len(content) > _MOST_LOADS_BYTES:
        raise NodeInputError(f"expected at most {_MOST_LOADS_BYTES} bytes")
    return content


class NodeProcess:
    """A mounted node. `run` blocks until the duration is over or `stop` is called."""

    def __init__(self, options: MountOptions, log: Callable[[str], None]) -> None:
        self.options = options
        self._log = log
        self._stop = threading.Event()
        self._lock = threading.RLock()
        node = build_node(options)
        self._folder = options.folder.resolve()
        self._machine = Machine(node, str(self._folder), speed=options.speed, uid=os.geteuid(), sockets=options.sockets)
        try:
            loads = loads_on(node, options.loads)
            self._simulation = Simulation(node, self._machine, loads, options.interval_s, options.seed)
        except NodeInputError as error:
            raise InputError(str(error)) from None
        self._plain: PlainExport | None = None
        self._fuse: fuse_files.FuseExport | None = None
        self._loads_seen: tuple[int, int] | None = None

    def stop(self) -> None:
        """Ask `run` to end."""
        self._stop.set()

    # -- laying out ----------------------------------------------------------------------------------------------

    @contextmanager
    def _prepared_folder(self) -> Generator[None]:
        """An empty place for the node, its own until the end: a dead mount of a previous run is taken away.

        InputError where another node runs there, or where the folder is somebody else's. The lock on the marker ends
        with this process, however it ends.
        """
        marker = self._folder / _MARKER
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            if any(self._folder.iterdir()) and not marker.exists():
                raise InputError(f"{self._folder} is not empty and not of a virtual node: choose another folder")
            held = marker.open("a", encoding="utf-8")
        except OSError as error:
            raise MachineError(f"{self._folder} can't be used: {error.strerror}") from None
        with held:
            take_for_this_process(held, str(self._folder), "virtual node: end that one")
            try:
                if fuse_files.is_mounted(self._folder / _KERNEL):
                    fuse_files.unmount(self._folder / _KERNEL)
                marker.write_text("osml virtual mount\n", encoding="utf-8")
                (self._folder / "node.json").unlink(missing_ok=True)
                (self._folder / "state").mkdir(exist_ok=True, mode=0o700)
            except OSError as error:
                raise MachineError(f"{self._folder} can't be used: {error.strerror}") from None
            yield

    def _export(self) -> str:
        """Put the kernel's files in place; returns 'fuse' or 'files'."""
        wanted = self.options.fuse
        reason = "switched off" if wanted == "off" else fuse_files.why_not()
        if reason is None:
            try:
                for name in _ROOTS:
                    self._clear(name)
                export = fuse_files.FuseExport(self._machine, self._folder / _KERNEL, self._lock)
                export.start()
            except fuse_files.FuseUnavailable as error:
                fuse_files.unmount(self._folder / _KERNEL)
                reason = str(error)
            else:
                self._fuse = export
                for name in _ROOTS:
                    (self._folder / name).symlink_to(Path(_KERNEL) / name)
                return "fuse"
        if wanted == "on":
            raise MachineError(f"FUSE is not available: {reason}; use --fuse off for plain files")
        if wanted == "auto":
            self._log(f"FUSE is not available ({reason}): the node uses plain files and watches them")
        self._plain = PlainExport(self._machine.tree, self._folder)
        self._plain.start()
        return "files"

    def _clear(self, name: str) -> None:
        """Remove what a previous run left under a root."""
        target = self._folder / name
        if target.is_symlink():
            target.unlink()
        elif target.exists():
            shutil.rmtree(target)

    def _describe(self, export: str) -> dict[str, Any]:
        node, options = self._simulation.node, self.options
        platform = self._machine.whole
        tenants: list[dict[str, Any]] = []
        for i, tenant in enumerate(node.tenants):
            entry: dict[str, Any] = {
                "name": tenant.name,
                "class": "lc" if i < len(node.services) else "be",
                "pid": self._machine.pids[i],
                "threads": tenant.threads,
                "cgroup": self._machine.cgroup_path(i),
            }
            if i < len(node.services):
                service = node.services[i]
                entry |= {"target_ms": service.target_ms, "max_load": service.max_load}
            tenants.append(entry)
        return {
            "ready": True,
            "simulated": True,
            "process": os.getpid(),
            "export": export,
            "platform": platform.id,
            "cpus": platform.cpus,
            "ways": platform.ways,
            "sockets": options.sockets,
            "services": tenants,
            "loads": self._simulation.loads,
            "time_scale": options.speed,
            "interval_s": options.interval_s,
            "seed": options.seed,
        }

    # -- running -------------------------------------------------------------------------------------------------

    def _read_loads(self) -> None:
        """Take over loads.json when it has changed; a wrong one is reported and changes nothing."""
        path = self._folder / "loads.json"
        try:
            status = path.stat()
            stamp = (status.st_mtime_ns, status.st_size)
            if stamp == self._loads_seen:
                return
            self._loads_seen = stamp
            loads = msgspec.json.decode(_content(path))
            if not isinstance(loads, dict):
                raise NodeInputError("expected an object with a load for each service name")
            self._simulation.set_loads(cast(dict[str, float], loads))
        except FileNotFoundError:
            return
        except (OSError, msgspec.DecodeError, NodeInputError) as error:
            self._log(f"loads.json ignored: {error}")

    def run(self) -> None:
        """Lay out, run, clean up. Raises InputError or MachineError before anything runs where it can't."""
        with self._prepared_folder():
            self._run()

    def _run(self) -> None:
        telemetry: TelemetryFiles | None = None
        try:
            export = self._export()
            telemetry = TelemetryFiles(self._folder / "telemetry", self._simulation.node.names)
            loads = self._simulation.loads
            _write_whole(self._folder / "loads.json", json.dumps(loads) + "\n")
            options = self.options
            config = agent_config(
                self._machine,
                self._folder,
                loads,
                speed=options.speed,
                interval_s=options.interval_s,
                server_url=options.server_url,
                policy=options.policy,
            )
            _write_whole(self._folder / "agent.yaml", config)
            (self._folder / "agent.yaml").chmod(0o600)
            self._read_loads()
            _write_whole(self._folder / "node.json", json.dumps(self._describe(export), indent=2) + "\n")
            self._log(f"{options.platform} runs in {self._folder} ({export}), {options.speed:g} times real time")
            self._loop(telemetry)
        except OSError as error:
            raise MachineError(f"{error.filename or self._folder}: {error.strerror}") from None
        finally:
            self._clean_up(telemetry)

    def _loop(self, telemetry: TelemetryFiles) -> None:
        step_wall_s = self._simulation.step_s / self.options.speed
        started = time.monotonic()
        next_step = started + step_wall_s
        next_loads = started
        end = math.inf if self.options.duration_s is None else started + self.options.duration_s
        nap = _POLL_S if self._plain is not None else _LOADS_EVERY_S
        while not self._stop.is_set() and (now := time.monotonic()) < end:
            if self._plain is not None:
                self._plain.poll()
                self._plain.refresh_counters()
            if now >= next_loads:
                self._read_loads()
                next_loads = now + _LOADS_EVERY_S
            if now >= next_step:
                with self._lock:
                    measured = self._simulation.step()
                if measured is not None:
                    telemetry.append(self._simulation.time_s, measured)
                # After a long pause (a laptop that slept) the node goes on; it does not race to catch up.
                next_step = next_step + step_wall_s if now - next_step < 1.0 else now + step_wall_s
            self._stop.wait(max(0.0, min(nap, next_step - time.monotonic())))

    def _clean_up(self, telemetry: TelemetryFiles | None) -> None:
        (self._folder / "node.json").unlink(missing_ok=True)
        if self._fuse is not None:
            self._fuse.stop()
        if self._plain is not None:
            self._plain.stop()
        if telemetry is not None:
            telemetry.close()
        for name in _ROOTS:
            if (self._folder / name).is_symlink():
                (self._folder / name).unlink()
        if (self._folder / _KERNEL).is_dir() and not fuse_files.is_mounted(self._folder / _KERNEL):
            (self._folder / _KERNEL).rmdir()


def run_until_signal(options: MountOptions, log: Callable[[str], None]) -> None:
    """Run a node in the foreground until SIGTERM, SIGINT or the end of its duration."""
    process = NodeProcess(options, log)

    def on_signal(number: int, frame: object) -> None:
        del number, frame
        process.stop()

    previous = {number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        process.run()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def parse_load(text: str) -> tuple[str, float]:
    """'moses=0.4' -> ('moses', 0.4); InputError says what is wrong with it."""
    name, equals, value = text.partition("=")
    try:
        load = float(value) if equals else math.nan
    except ValueError:
        load = math.nan
    if not name or not 0 <= load <= MAX_LOAD:
        raise InputError(f"--lc '{text}': expected NAME=LOAD with a load from 0 to {MAX_LOAD:g}, like moses=0.4")
    return name, load
