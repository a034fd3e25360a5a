"""`osml run dispatch`: interference-aware dispatch in front of a running HAProxy."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import typer

from osml.base.config_file import config_option
from osml.base.failure import Failure, InputError
from osml.base.token_file import read_token

if TYPE_CHECKING:  # the solver is compiled code, which takes a second to import: not for `osml --help`
    from osml.dispatch.haproxy.controller import Controller
    from osml.dispatch.haproxy.interference_signal import Signal
    from osml.dispatch.haproxy.proxy import HaproxyBackend as Backend

DEFAULT_LEVEL = {"e_s": 0.2, "slowdown": 1.25}
"""A slowdown is 1 without interference."""


def run_command(
    socket: Annotated[Path, typer.Option(help="HAProxy's runtime socket (`stats socket PATH level admin`).")],
    backend: Annotated[str, typer.Option(help="Backend to control; its servers need a maxconn.")],
    policy: Annotated[
        Literal["threshold", "avoid", "round_robin", "non_idling"],
        typer.Option(help="threshold: optimal thresholds for the estimated rates; the others are for comparison."),
    ] = "threshold",
    server_url: Annotated[str | None, typer.Option(help="Source of interference: URL of an osml server.")] = None,
    node: Annotated[
        list[str] | None, typer.Option(help="BACKEND_SERVER=NODE; default: the node has the name of the server.")
    ] = None,
    measure: Annotated[
        Literal["e_s", "slowdown"], typer.Option(help="e_s: entropy of the node; slowdown: of its worst job, 1 = none.")
    ] = "e_s",
    token_file: Annotated[Path | None, typer.Option(help="File with the osml server's bearer token.")] = None,
    signal_file: Annotated[
        Path | None, typer.Option(help='Source of interference: JSON file, {"web1": true, "web2": 0.1}.')
    ] = None,
    schedule: Annotated[
        Path | None,
        typer.Option(help='Source of interference: times, [{"t": 30, "backend": "web1", "interfered": true}, ...].'),
    ] = None,
    level: Annotated[
        float | None,
        typer.Option(
            help="Lowest value of the measure that counts as interference.",
            show_default="0.2 for e_s, 1.25 for slowdown",
        ),
    ] = None,
    max_age_s: Annotated[float, typer.Option(help="Oldest valid reading, in seconds.")] = 5.0,
    mu_high: Annotated[float | None, typer.Option(help="Prior: requests/s of a server without interference.")] = None,
    mu_low: Annotated[float | None, typer.Option(help="Prior: requests/s of a server under interference.")] = None,
    alpha_high: Annotated[float, typer.Option(help="Prior: rate at which interference begins, per s.")] = 1 / 30,
    alpha_low: Annotated[float, typer.Option(help="Prior: rate at which interference ends, per s.")] = 1 / 30,
    interfered_slots: Annotated[int, typer.Option(help="Concurrent requests on a server under interference.")] = 1,
    poll_ms: Annotated[float, typer.Option(help="Milliseconds between two queries to HAProxy.")] = 1.0,
    duration: Annotated[float | None, typer.Option(help="Seconds to run; default: until a signal.")] = None,
    report_s: Annotated[float, typer.Option(help="Seconds between two report lines.")] = 1.0,
    state_file: Annotated[
        Path | None, typer.Option(help="File for the servers' original state.", show_default="SOCKET.BACKEND.osml")
    ] = None,
    config: Annotated[Path | None, config_option()] = None,
    json: Annotated[bool, typer.Option("--json", help="JSON lines on standard output.")] = False,
) -> None:
    """Enable and disable servers of an HAProxy backend by their interference.

    A server under interference gets requests only if that lowers the mean response time. On exit, on SIGTERM and
    without a signal of interference, every server has its original state.
    """
    del config  # its values are those of the other parameters
    _check(
        {"--level": level, "--max-age-s": max_age_s, "--poll-ms": poll_ms, "--report-s": report_s}
        | {"--mu-high": mu_high, "--mu-low": mu_low, "--alpha-high": alpha_high, "--alpha-low": alpha_low}
        | {"--duration": duration, "--interfered-slots": interfered_slots}
    )
    if mu_high is not None and mu_low is not None and mu_low > mu_high:
        raise InputError(
            f"--mu-low is {mu_low:g}, expected at most --mu-high, {mu_high:g}: a server is slower under interference"
        )
    limit = level_of(level, measure)
    # The solver's matrices would take every CPU for a while: from the control loop, and from a HAProxy beside it.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from osml.dispatch.haproxy.command_socket import RuntimeSocket  # noqa: PLC0415
    from osml.dispatch.haproxy.controller import Controller  # noqa: PLC0415
    from osml.dispatch.haproxy.estimate import Estimates, Priors  # noqa: PLC0415
    from osml.dispatch.haproxy.journal import Journal  # noqa: PLC0415
    from osml.dispatch.haproxy.proxy import HaproxyBackend, check_backend  # noqa: PLC0415
    from osml.dispatch.mdp.lookup import solved  # noqa: PLC0415
    from osml.dispatch.mdp.parameters import FarmParameters  # noqa: PLC0415

    runtime = RuntimeSocket(socket)
    runtime.check()
    check_backend(runtime, backend)  # before its journal is made
    journal = Journal(state_file or socket.with_name(f"{socket.name}.{backend}.osml"), backend)
    haproxy = HaproxyBackend(runtime, backend, journal)
    haproxy.start()
    begin = _signal(haproxy, server_url, node or [], measure, token_file, signal_file, schedule, limit, max_age_s)
    if haproxy.changed:
        haproxy.restore()  # what a killed controller left is not kept for as long as the solver compiles
    if policy == "threshold":
        # The first solution may compile for some seconds, beside which nobody could steer.
        solved(FarmParameters(2, 1.0, 2.0, 1.0, alpha_high, alpha_low, "anytime").rounded())
    estimates = Estimates(Priors(mu_high, mu_low, alpha_high, alpha_low))
    source, stop = begin(), _Stop(duration)
    with Controller(haproxy, source, policy, estimates, limit_interfered=interfered_slots) as controller:
        reporter = _Reporter(controller, source, report_s, json)
        controller.run(lambda: stop.now() or reporter.tick(), poll_ms / 1000)
    journal.close()
    if not controller.restored:
        raise Failure(
            f"HAProxy does not answer, so its servers keep their state: {journal.path} has the original state, and the "
            "next `osml run dispatch` restores it"
        )


def _check(values: dict[str, float | None]) -> None:
    for option, value in values.items():
        if value is not None and not 0 < value < 1e9:
            raise InputError(f"{option} is {value:g}, expected a number above 0")


def level_of(given: float | None, measure: Literal["e_s", "slowdown"]) -> float:
    """Raises InputError for a level that the measure always reaches."""
    if given is None:
        return DEFAULT_LEVEL[measure]
    if measure == "slowdown" and given <= 1:
        raise InputError(
            f"--level is {given:g}, expected above 1 with --measure slowdown: every server has a slowdown of 1 or more"
        )
    return given


def _signal(
    haproxy: Backend,
    server_url: str | None,
    node: list[str],
    measure: Literal["e_s", "slowdown"],
    token_file: Path | None,
    signal_file: Path | None,
    schedule: Path | None,
    level: float,
    max_age_s: float,
) -> Callable[[], Signal]:
    """What begins the one source of interference that was named: times of a schedule count from then. InputError."""
    from osml.dispatch.haproxy.interference_server import ServerSignal  # noqa: PLC0415
    from osml.dispatch.haproxy.interference_signal import (  # noqa: PLC0415
        FileSignal,
        Level,
        ScheduleSignal,
        load_schedule,
    )

    names = haproxy.names
    if (server_url is not None) + (signal_file is not None) + (schedule is not None) != 1:
        raise InputError("expected exactly one source of interference: --server-url, --signal-file or --schedule")
    if schedule is not None:
        switches = load_schedule(schedule)
        _known({switch.backend for switch in switches}, names, f"--schedule {schedule}")
        return lambda: ScheduleSignal(switches, time.monotonic())
    if signal_file is not None:
        return lambda: FileSignal(signal_file, Level(level), max_age_s, time.time, lambda: haproxy.names)
    pairs = dict(zip(names, names, strict=True))
    for text in node:
        backend, equals, name = text.partition("=")
        if not equals or not name:
            raise InputError(f"--node is '{text}', expected SERVER=NODE, such as {names[0]}=node-17")
        _known({backend}, names, f"--node {text}")
        pairs[backend] = name
    if not (server_url or "").startswith(("http://", "https://")):
        raise InputError(f"--server-url is '{server_url}', expected http://HOST:PORT")
    token = read_token(token_file)
    return lambda: ServerSignal(server_url or "", pairs, measure, Level(level), max_age_s, token)


def _known(given: set[str], names: tuple[str, ...], where: str) -> None:
    unknown = sorted(given - set(names))
    if unknown:
        raise InputError(f"{where} names {', '.join(unknown)}, expected servers of the backend: {', '.join(names)}")


class _Stop:
    """True from SIGTERM, SIGINT or the end of the time on."""

    def __init__(self, duration: float | None) -> None:
        self._end = None if duration is None else time.monotonic() + duration
        self._asked = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._ask)

    def now(self) -> bool:
        return self._asked or (self._end is not None and time.monotonic() >= self._end)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._asked = True


class _Reporter:
    """A line each `every_s`: for people one that stays in place on a terminal, or one JSON document."""

    def __init__(self, controller: Controller, source: Signal, every_s: float, json: bool) -> None:
        self._controller, self._source, self._every_s, self._json = controller, source, every_s, json
        self._next = time.monotonic()

    def tick(self) -> bool:
        """Always False, so that it can stand in the loop's condition."""
        if time.monotonic() >= self._next:
            self._next += self._every_s
            document = self._document()
            text = msgspec.json.encode(document).decode() if self._json else self._line(document)
            place = "\r\x1b[K" if sys.stdout.isatty() and not self._json else ""
            sys.stdout.write(place + text + ("" if place else "\n"))
            sys.stdout.flush()
        return False

    def _document(self) -> dict[str, object]:
        status, lookup, estimates = self._controller.status, self._controller.lookup, self._controller.estimates
        table = None if lookup is None else lookup.table
        problems = (
            status.away_reason, getattr(self._source, "problem", None), None if lookup is None else lookup.problem,
        )  # fmt: skip
        return {
            "seconds": round(status.seconds, 3), "mode": status.mode, "queued": status.queued,
            "in_service": status.in_service, "states": status.states,
            "interfered": status.interfered, "slots": status.slots,
            "changes": status.changes, "outages": status.lost, "restarts": status.restarts,
            "rates": {
                name: getattr(estimates, name).value
                for name in ("arrival", "mu_high", "mu_low", "alpha_high", "alpha_low")
            },
            "thresholds": None if table is None else table.named(),
            "problem": "; ".join(problem for problem in problems if problem) or None,
        }  # fmt: skip

    def _line(self, document: dict[str, object]) -> str:
        status = self._controller.status
        parts = [f"{status.seconds:7.1f} s", f"{status.mode:11}", f"waiting {status.queued:4}"]
        for name, jobs in status.in_service.items():
            mark = "!" if status.interfered.get(name) else ""
            parts.append(f"{name}{mark} {jobs} {status.states[name]}")
        thresholds, problem = document["thresholds"], document["problem"]
        if isinstance(thresholds, dict):
            parts.append(" ".join(f"{name}={size}" for name, size in list(thresholds.items())[:3]))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        return "  ".join([*parts, *([str(problem)] if problem else [])])
