"""Which commands there are, in which group, and where each lives. Nothing is loaded before it is asked for."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, NamedTuple

from osml.base.extras import how_to_install
from osml.base.failure import MachineError

PLUG_INS = "osml.commands"
"""Entry point group of commands in other packages."""

GROUPS = {
    "run": "Start the scheduler: the server, the demonstration, real services, request dispatch.",
    "look": "Look at one machine or one set of numbers.",
    "learn": "Collect data, train models, exchange models.",
    "lab": "Repeat and compare the experiments of the papers.",
}


class Entry(NamedTuple):
    """A command: its group and name there, where it is, its line in the help, and its name before there were groups.

    `target` is `module:attribute`, or the distribution whose entry point has the command. `extra` is what to install
    where a library is missing.
    """

    group: str
    name: str
    target: str
    help: str
    old: str
    extra: str = ""


COMMANDS = (
    Entry("run", "serve", "osml-serving", "Run the decision server.", "serve"),
    Entry("run", "tokens", "osml-serving", "Create, list and revoke tokens of the server.", "tokens"),
    Entry("run", "demo", "osml.lab.commands.demo:demo", "The main job on a simulated node.", "demo", "lab"),
    Entry("run", "live", "osml.lab.commands.live:app", "The main job on real services here.", "live", "lab"),
    Entry(
        "run", "dispatch", "osml.dispatch.haproxy.command:run_command", "Dispatch requests of a running HAProxy.", "",
        "dispatch",
    ),
    Entry("look", "doctor", "osml.cli.doctor:doctor", "What this machine can do, and how to get the rest.", "doctor"),
    Entry("look", "entropy", "osml.cli.entropy:entropy", "The system entropy E_S of measured numbers.", "entropy"),
    Entry("look", "report", "osml.cli.record_report:report", "A record of the agent on one page.", "report"),
    Entry(
        "look", "advise", "osml.twin.commands.advise:advise",
        "Who suffers from whom, and what each lever would give, from a record.", "advise", "simulator",
    ),
    Entry(
        "look", "twin", "osml.twin.commands.twin:app", "A virtual node made from a record: fit, check, ask.", "twin",
        "simulator",
    ),
    Entry(
        "look", "replay", "osml.twin.commands.replay:replay", "What another policy would have decided over a record.",
        "replay", "simulator",
    ),
    Entry(
        "look", "profile", "osml.lab.commands.profile:profile",
        "A program's misses over the size of the last-level cache.", "profile", "lab",
    ),
    Entry("learn", "data", "osml-training", "Traces and labels: collect, import, label, check, contribute.", "data"),
    Entry("learn", "train", "osml-training", "Train, evaluate and transfer models: A, A', B, B', C, C'.", "train"),
    Entry("learn", "models", "osml-training", "List, show, promote and roll back models.", "models"),
    Entry(
        "lab", "simulator", "osml.simulator.commands:app", "The virtual node: surfaces, checks, the best partition.",
        "virtual", "simulator",
    ),
    Entry("lab", "bench", "osml.lab.commands.bench:app", "Compare policies in suites of the papers.", "bench", "lab"),
    Entry(
        "lab", "theory", "osml.lab.commands.theory:app", "The theory of Ah-Q on given or simulated numbers.", "theory",
        "lab",
    ),
    Entry(
        "lab", "conformance", "osml.lab.commands.conformance:conformance",
        "Check a server against the contract of the wire format.", "",
    ),
    Entry("lab", "ombm", "osml.lab.commands.ombm:app", "Bandwidth profiles and their use.", "ombm", "lab"),
    Entry(
        "lab", "live", "osml.lab.commands.live_lab:app", "Real services here, measured against predicted.", "", "lab",
    ),
    Entry(
        "lab", "dispatch", "osml.lab.commands.dispatch:app", "Request dispatch as a Markov decision process.",
        "dispatch", "lab",
    ),
)  # fmt: skip


def load(entry: Entry) -> Any:
    """The function or application of a command. MachineError says what to install where something is missing."""
    if ":" not in entry.target:
        found = [one for one in entry_points(group=PLUG_INS) if one.name == entry.name]
        if not found:
            raise MachineError(
                f"command '{entry.name}' is in the package {entry.target}, which is not installed: "
                f"{how_to_install(package=entry.target)}"
            )
        return found[0].load()
    module, attribute = entry.target.split(":")
    try:
        return getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("osml"):
            raise
        raise MachineError(
            f"command '{entry.name}' needs the Python package '{error.name}', which is not installed: "
            f"{how_to_install(*filter(None, [entry.extra]))}"
        ) from None


def other_plug_ins() -> list[EntryPoint]:
    """Commands that other packages add, and that no group knows, by name."""
    known = {entry.name for entry in COMMANDS}
    return sorted((one for one in entry_points(group=PLUG_INS) if one.name not in known), key=lambda one: one.name)
