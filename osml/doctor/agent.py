"""What the agent can set on this machine: its own probe, asked once."""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec

from osml.base.agent_binary import find_agent
from osml.base.failure import MachineError
from osml.doctor.finding import Finding

_PATIENCE_S = 20.0

_WEIGHT = "run as root with the cpu controller of cgroup v1, or delegate `cpu` of cgroup v2"
_WAYS = (
    "a CPU with CAT (Intel), QoS enforcement (AMD) or MPAM (Arm), not hidden by a virtual machine; then "
    "`mount -t resctrl resctrl /sys/fs/resctrl`"
)
_HOW_TO = {
    "cpuset": "run as root with the cpuset controller of cgroup v1, or delegate `cpuset` of cgroup v2",
    "affinity": "run as root, or as the user of the services",
    "cpu_quota": "run as root with the cpu controller of cgroup v1, or delegate `cpu` of cgroup v2",
    "cpu_weight": _WEIGHT,
    "cpu.weight": _WEIGHT,
    "llc_ways": _WAYS,
    "l3": _WAYS,
    "cpu.idle": "run as root with the cpu controller of cgroup v2",
    "memory.high": "run as root with the memory controller of cgroup v2",
    "io.max": "run as root with the io controller of cgroup v2, on a machine with a disk",
    "memory_nodes": "a machine with several NUMA nodes, and the cpuset controller of cgroups",
    "sched_policy": "run with CAP_SYS_NICE",
    "cpufreq": "a driver for the clock (intel_pstate, amd-pstate, acpi-cpufreq), which virtual machines mostly lack",
    "irq": "run as root, on several CPUs, with write access to /proc/irq",
    "mba": "a CPU with MBA, not hidden by a virtual machine; then `mount -t resctrl resctrl /sys/fs/resctrl`",
    "mba_regulator": "resctrl with MBM counters, and the freezer of cgroups",
    "llc_monitoring": "a CPU with CMT and MBM, not hidden by a virtual machine; then "
    "`mount -t resctrl resctrl /sys/fs/resctrl`",
}
"""For what the agent itself gives no way; by its names of mechanisms."""


class _Mechanism(msgspec.Struct):
    name: str
    available: bool
    reason: str
    how_to_enable: str


class _Service(msgspec.Struct):
    name: str
    source: str | None = None
    watched: bool = False


class _Probe(msgspec.Struct):
    mechanisms: list[_Mechanism]
    services: list[_Service] = []
    refused_pods: dict[str, str] = {}
    refused_targets: dict[str, str] = {}


def agent_findings(given: Path | None) -> list[Finding]:
    """Mechanisms of the agent; one finding that says why where there is no agent to ask."""
    try:
        binary = find_agent(given)
    except MachineError as error:
        return [Finding("agent", "act", False, str(error), "`make agent`, or install the package of the agent")]
    return [Finding("agent", "act", True, str(binary)), *_mechanisms(binary)]


def _mechanisms(binary: Path) -> list[Finding]:
    try:
        done = subprocess.run([str(binary), "probe", "--json"], capture_output=True, timeout=_PATIENCE_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return [_ill(binary, str(error))]
    try:
        probe = msgspec.json.decode(done.stdout, type=_Probe)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        return [_ill(binary, said[-1] if said else f"exit code {done.returncode}, unreadable output ({error})")]
    return [*_listed(probe.mechanisms), *_services(probe), *_refused(probe)]


def _ill(binary: Path, why: str) -> Finding:
    """The agent can't say what it can do. The other findings are worth having all the same."""
    return Finding("probe of the agent", "act", False, why, f"mend what it says; `{binary} probe` shows it again")


def _services(probe: _Probe) -> list[Finding]:
    """Services of the node's own configuration, where it has one, and those that pods or LatencyTargets ask for."""
    found: list[Finding] = []
    for one in probe.services:
        by_pod = one.source is not None and one.source.startswith("pod ")
        origin = f"annotations of {one.source}" if by_pod else one.source or "the agent's configuration"
        where = "the annotation osml.dev/latency" if by_pod else "spec.latency"
        how = f"set {where}" if one.watched else ""
        reason = f"{origin}; watched, not managed: no latency source" if one.watched else origin
        found.append(Finding(f"service {one.name}", "act", not one.watched, reason, how))
    return found


def _refused(probe: _Probe) -> list[Finding]:
    how = "correct the annotations of the pod, or the LatencyTarget that is named"
    pods = [Finding(f"pod {pod}", "act", False, why, how) for pod, why in probe.refused_pods.items()]
    targets = [
        Finding(f"LatencyTarget {name}", "act", False, why, "correct its spec")
        for name, why in probe.refused_targets.items()
    ]
    return [*pods, *targets]


def _listed(mechanisms: list[_Mechanism]) -> list[Finding]:
    return [
        Finding(m.name, "act", m.available, m.reason, "" if m.available else m.how_to_enable or _HOW_TO.get(m.name, ""))
        for m in mechanisms
    ]
