"""The demo from start to end: server, two phases, summary, plot."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from osml.base.agent_binary import find_agent
from osml.lab.trials import summary
from osml.lab.trials.children import OSML, Children, free_port, interrupt_on_signals, wait_until
from osml.lab.trials.demo.phases import PhaseResult, elapsed_s, run_phase
from osml.lab.trials.demo.settings import DemoSettings
from osml.lab.trials.demo.view import DemoView
from osml.lab.trials.folder import STORE, begin_folder
from osml.lab.trials.server import is_ready
from osml.lab.trials.timeline import Phase, draw

OWN = (
    "node-unmanaged", "node-managed", "logs", "summary.json", "timeline.png", "*-*managed.jsonl", f"{STORE}*",
)  # fmt: skip


def run_demo(settings: DemoSettings) -> dict[str, Any]:
    """Run the demo and write `summary.json` and `timeline.png` below `settings.out`; returns the summary.

    Raises InputError for bad knobs, MachineError where the agent is not built, Failure when a process dies.
    """
    settings.check()
    settings = replace(settings, agent=find_agent(settings.agent), out=settings.out.resolve())
    begin_folder(settings.out, OWN)
    interrupt_on_signals()
    port = settings.port or free_port()
    url = f"http://127.0.0.1:{port}"
    results: list[PhaseResult] = []
    with Children(settings.out / "logs") as children, DemoView(settings.unmanaged_s + settings.managed_s, url) as view:
        # What is learned on a simulated node stays beside it: it must not mix with what real nodes report.
        store = f"sqlite:///{settings.out / STORE}"
        serve = [*OSML, "serve", "--port", str(port), "--policy", settings.policy, "--store", store]
        server = children.start("server", serve)
        wait_until(lambda: is_ready(url), "the server", [server])
        for policy in ("unmanaged", settings.policy):
            view.begin(policy)
            results.append(run_phase(settings, children, server, url, policy, view.show))
    document = summarise(settings, *results)
    (settings.out / "summary.json").write_text(json.dumps(document, indent=1) + "\n")
    plot(settings, *results)
    return document


def summarise(settings: DemoSettings, unmanaged: PhaseResult, managed: PhaseResult) -> dict[str, Any]:
    """The document of `summary.json` (keys: the contract of `osml run demo`)."""
    after_step = [
        record
        for position, record in enumerate(managed.records)
        if elapsed_s(managed.records[: position + 1]) > settings.managed_s / 2
    ]
    return {
        "platform": settings.platform,
        "policy": settings.policy,
        "simulated": True,
        "loads": {"start": settings.lc, "after_step": settings.lc | settings.step},
        "speed": settings.speed,
        "seed": settings.seed,
        "phases": {"unmanaged": summary.phase(unmanaged.records), "managed": summary.phase(managed.records)},
        "actions": summary.actions(managed.records),
        "convergence_s": summary.convergence_s(managed.records),
        "convergence_after_step_s": summary.convergence_s(after_step),
        "agent": None
        if managed.agent is None
        else {"cpu_pct": managed.agent.cpu_pct, "rss_mib": managed.agent.rss_mib},
    }


def plot(settings: DemoSettings, unmanaged: PhaseResult, managed: PhaseResult) -> Path:
    """Draw `timeline.png`."""
    first = Phase("unmanaged", unmanaged.records, 0.0, settings.unmanaged_s / 2)
    second = Phase(settings.policy, managed.records, first.end_s, settings.managed_s / 2)
    path = settings.out / "timeline.png"
    mix = ", ".join(f"{name} {load:.0%}" for name, load in settings.lc.items())
    draw([first, second], path, f"{settings.platform} (simulated): {mix} of max load + {', '.join(settings.be)}")
    return path
