"""`osml lab simulator oracle`: the exact best partition of a mix into isolated parts."""

from __future__ import annotations

import math
import sys
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from osml.simulator.mix import loads_on, node_of, parse_mix, scaling_notes
from osml.simulator.oracle import Answer, best_partition
from osml.simulator.oracle.partitions import Outcome
from osml.simulator.oracle.shared import settle_shared
from osml.simulator.state import Node


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _document(node: Node, mix: str, answer: Answer, sharing: Outcome) -> dict[str, Any]:
    """The JSON document. `cores_used` and `ways_used` are those of LC services; BE jobs share what is left."""
    n = len(node.services)
    rows = [(service.name, answer.partition[i]) for i, service in enumerate(node.services)]
    rows += [(job.name, answer.partition[n]) for job in node.jobs]
    used = answer.partition[:n].sum(0)
    return {
        "mix": mix, "platform": node.platform.id, "simulated": True, "feasible": answer.outcome.feasible,
        "partition": {name: {"cores": int(row[0]), "ways": int(row[1])} for name, row in rows},
        "shared": [job.name for job in node.jobs] if len(node.jobs) > 1 else [],
        "cores_used": int(used[0]), "ways_used": int(used[1]),
        "cost": answer.cost, "e_s": answer.outcome.e_s, "e_lc": answer.outcome.e_lc, "e_be": answer.outcome.e_be,
        "services": [
            {"name": s.name, "percentile": s.percentile, "latency_ms": _finite(tail), "target_ms": s.target_ms,
             "met": tail <= s.target_ms}
            for s, tail in zip(node.services, answer.outcome.tails_ms, strict=True)
        ],
        "jobs": [
            {"name": job.name, "slowdown": _finite(slow)}
            for job, slow in zip(node.jobs, answer.outcome.slowdowns, strict=True)
        ],
        "missing": answer.missing,
        "sharing_feasible": sharing.feasible, "sharing_e_s": sharing.e_s, "notes": scaling_notes(node),
        "proven": answer.proven,
        "nodes_evaluated": answer.nodes, "bound_evaluations": answer.cells, "seconds": answer.seconds,
    }  # fmt: skip


def _show(node: Node, mix: str, answer: Answer, sharing: Outcome) -> None:
    console, n, reached = Console(), len(node.services), answer.outcome
    table = Table(title=f"Best partition of {mix} on {node.platform.id} (simulated)", title_justify="left")
    table.add_column("service")
    for heading in ("cores", "ways", "tail ms", "target ms", "met"):
        table.add_column(heading, justify="right")
    for i, service in enumerate(node.services):
        tail = reached.tails_ms[i]
        table.add_row(
            service.name,
            str(answer.partition[i, 0]),
            str(answer.partition[i, 1]),
            f"{tail:.4g}",
            f"{service.target_ms:g} ({service.percentile})",
            "yes" if tail <= service.target_ms else "NO",
        )
    for job, slow in zip(node.jobs, reached.slowdowns, strict=True):
        shared = " shared" if len(node.jobs) > 1 else ""
        table.add_row(
            job.name,
            f"{answer.partition[n, 0]}{shared}",
            f"{answer.partition[n, 1]}{shared}",
            f"{slow:.2f} times slower than alone",
            "",
            "",
        )
    console.print(table)
    if reached.feasible:
        console.print(
            f"all targets are met with {answer.cost:.3f} of 2 (share of cores + share of ways)", highlight=False
        )
    else:
        what = "infeasible: this is the partition with the lowest E_S"
        console.print(what if answer.proven else "no feasible partition found; lowest E_S so far", highlight=False)
        for sentence in answer.missing:
            console.print(f"  {sentence}", highlight=False, soft_wrap=True)
    if not answer.proven:
        console.print("the time limit ended the search: a better partition can exist", highlight=False)
    if sharing.feasible and not reached.feasible:
        console.print("one region that all tenants share meets all targets", highlight=False)
    console.print(f"E_S {reached.e_s:.4f}", highlight=False)
    console.print(
        f"{answer.nodes} whole nodes and {answer.cells} bounds evaluated in {answer.seconds:.2f} s", highlight=False
    )


def oracle(
    mix: Annotated[str, typer.Argument(metavar="MIX", help="NAME=LOAD,NAME=LOAD[,be:NAME], loads as shares of max.")],
    platform: Annotated[str, typer.Option(help="Platform of the catalog.")],
    limit_s: Annotated[
        float | None, typer.Option("--limit-s", min=0.0, help="Time limit in s; the best result so far counts.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Find the best partition of a mix into isolated parts: fewest resources that meet all targets, else lowest E_S.

    Where one region that all tenants share meets all targets and no isolated parts do, the command says so.
    """
    parsed = parse_mix(mix)
    node = node_of(parsed, platform)
    loads = loads_on(node, parsed.loads)
    for note in scaling_notes(node):
        typer.echo(f"note: {note}", err=True)
    console = Console(stderr=True)
    with console.status("searching (the first run compiles for about a minute)") as status:
        answer = best_partition(
            node,
            loads,
            limit_s,
            lambda what: status.update(f"{what} (the first run compiles for about a minute)"),
        )
    sharing = settle_shared(node, loads)
    if json:
        sys.stdout.write(msgspec.json.encode(_document(node, str(parsed), answer, sharing)).decode() + "\n")
    else:
        _show(node, str(parsed), answer, sharing)
