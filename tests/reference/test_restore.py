"""`osml-agent restore`: the machine as it was found."""

from __future__ import annotations

from tests.reference.conftest import Boot
from tests.reference.decisions import CGROUPS
from tests.reference.profiles import MON_ONLY, OLD_KERNEL, on, on_every

# Kernels up to 6.12 do not empty the cpuset of a populated cgroup; it gets the parent's CPUs by name instead.
SPELLED_OUT = {"": "0-7"}


@on_every
def test_restore_ends_well(boot: Boot) -> None:
    assert boot.transcript["restore"].code == 0
    assert boot.transcript["restore"].json["status"] == "restored"


@on_every
def test_no_group_of_the_agent_is_left(boot: Boot) -> None:
    assert boot.transcript.state("restored").groups() == boot.transcript.state("found").groups()


@on_every
def test_cgroup_files_are_as_found(boot: Boot) -> None:
    found, restored = boot.transcript.state("found"), boot.transcript.state("restored")
    for cgroup in CGROUPS.values():
        for name in ("cpuset.cpus.effective", "cpu.max", "cpu.weight"):
            path = f"cgroup/{cgroup}/{name}"
            assert restored.line(path) == found.line(path), path
        path = f"cgroup/{cgroup}/cpuset.cpus"
        expected = found.line(path)
        if boot.profile == OLD_KERNEL:
            expected = SPELLED_OUT.get(expected, expected)
        assert restored.line(path) == expected, path


@on_every
def test_every_thread_is_back_in_the_group_where_it_was_found(boot: Boot) -> None:
    found, restored = boot.transcript.state("found"), boot.transcript.state("restored")
    known = {tid for cgroup in CGROUPS.values() for tid in found.threads(cgroup)}
    for group in found.groups():
        assert restored.tasks(group) & known == found.tasks(group), group


@on_every
def test_threads_born_since_are_in_the_root_group(boot: Boot) -> None:
    found, restored = boot.transcript.state("found"), boot.transcript.state("restored")
    born = restored.threads("lc/web") - found.threads("lc/web")
    assert len(born) == 2
    # On a machine that only monitors the kernel lists nobody in the root group: there, not in any other is all to see.
    for group in restored.groups() - {"."}:
        assert not born & restored.tasks(group), group
    if boot.profile.allocation is not None:
        assert born <= restored.tasks(".")


@on_every
def test_a_second_restore_changes_nothing_and_ends_well(boot: Boot) -> None:
    assert boot.transcript["restore.again"].code == 0
    assert boot.transcript.state("restored").differences(boot.transcript.state("restored.again")) == []


@on(MON_ONLY)
def test_monitoring_groups_of_the_daemon_go_too(boot: Boot) -> None:
    assert "mon_groups/osml-web" in boot.transcript.state("run").groups()
    assert "mon_groups/osml-web" not in boot.transcript.state("restored").groups()
