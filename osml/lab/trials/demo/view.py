"""What the demo shows while it runs: a progress bar and a table on a terminal, a line now and then elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from osml.domain import Service
from osml.lab.trials.records import Record

PLAIN_EVERY = 20  # intervals between two lines where standard error is no terminal
RECENT = 5


def service_state(service: Service) -> Text:
    """Met or violated, in words and colour; BE jobs show their speed against running alone."""
    if service.kind == "be":
        slowdown = service.slowdown
        return Text("-" if slowdown is None else f"{100 / slowdown:.0f} % of solo speed", style="dim")
    slack = service.slack
    if slack is None:
        return Text("no latency", style="yellow")
    return Text("met", style="green") if slack >= 0 else Text("VIOLATED", style="bold red")


def services_table(record: Record) -> Table:
    """The node's services in the latest interval."""
    platform, partition = record.observation.platform, record.decision.partition
    table = Table("service", "latency ms", "target ms", "state", "cores", "ways", expand=False)
    for service in record.observation.services:
        latency_ms = service.latency_ms
        table.add_row(
            service.name,
            "-" if latency_ms is None else f"{latency_ms:.2f}",
            "-" if service.target_ms is None else f"{service.target_ms:g}",
            service_state(service),
            f"{partition.cores_of(service.name) * platform.core_quantum:g}",
            "-" if platform.ways is None else str(partition.ways_of(service.name)),
        )
    return table


class DemoView:
    """Live view of both phases on standard error (standard output belongs to `--json`)."""

    def __init__(self, total_intervals: int, dashboard: str) -> None:
        self._console = Console(stderr=True)
        self._dashboard = dashboard
        self._progress = Progress(
            TextColumn("{task.description:10}"),
            BarColumn(),
            TextColumn("{task.percentage:3.0f} %"),
            TimeRemainingColumn(),
        )
        self._task = self._progress.add_task("starting", total=total_intervals)
        self._live = Live(console=self._console, refresh_per_second=4) if self._console.is_terminal else None
        self._recent: list[str] = []
        self._seen = 0

    def begin(self, description: str) -> None:
        """A phase starts."""
        self._recent.clear()
        self._progress.update(self._task, description=description)
        if self._live is None:
            self._console.print(f"{description}: dashboard at {self._dashboard}")

    def show(self, record: Record) -> None:
        """A new interval."""
        self._seen += 1
        self._progress.advance(self._task)
        entropy = record.decision.entropy.e_s if record.decision.entropy else None
        line = "; ".join(reason.text for reason in record.decision.reasons)
        headline = f"t = {record.observation.time_s:.0f} s   E_S = {'-' if entropy is None else f'{entropy:.3f}'}"
        self._recent = [*self._recent, line][-RECENT:]
        if self._live is not None:
            dashboard = Text(f"dashboard: {self._dashboard}", style="dim")
            body = Text("\n".join(self._recent), style="dim", overflow="ellipsis", no_wrap=True)
            self._live.update(Group(self._progress, Text(headline), services_table(record), body, dashboard))
        elif self._seen % PLAIN_EVERY == 0:
            self._console.print(Text(f"{headline}   {line}"), soft_wrap=True)

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
