"""Parts of machines and variants of services: the same wherever they are asked for, and a sweep takes their names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from osml.base.failure import InputError
from osml.simulator import catalogs
from osml.simulator.surface import ideal_ms

variants = pytest.importorskip("osml_training.collect.variants")
collecting = pytest.importorskip("osml_training.collect.collect")
examples = pytest.importorskip("osml_training.tables.examples")

platform_of, service_of, variants_of = variants.platform_of, variants.service_of, variants.variants_of


def test_plain_names_are_the_catalogs_own() -> None:
    assert platform_of("e5-2630v4") == catalogs.platform("e5-2630v4")
    assert service_of("moses", "e5-2630v4") == catalogs.service("moses", "e5-2630v4")


def test_a_part_of_a_machine_has_fewer_cpus_and_ways_and_its_services_fit_it() -> None:
    part, whole = platform_of("e5-2697v4@8x10"), catalogs.platform("e5-2697v4")
    assert (part.id, part.cpus, part.physical_cores, part.ways) == ("e5-2697v4@8x10", 8, 4, 10)
    assert part.way_mib == whole.way_mib
    service = service_of("moses", "e5-2697v4@8x10")
    assert service.threads == 8
    faster = part.frequency_ghz / whole.frequency_ghz  # the other cores of the chip are idle
    assert service.max_load == pytest.approx(catalogs.service("moses", "e5-2697v4").max_load * 8 / 36 * faster)


def test_made_up_machines_differ_from_each_other_stay_the_same_and_their_services_fit_them() -> None:
    names = variants_of(("e5-2697v4",), 40)
    found = [platform_of(name) for name in names]
    platform_of.cache_clear()
    assert [platform_of(name) for name in names] == found
    assert [machine.id for machine in found] == list(names)
    assert len({(m.cpus, m.frequency_ghz, m.ways, m.way_mib, m.bandwidth_gbps) for m in found}) == 40
    assert {m.cpus // m.physical_cores for m in found} == {1, 2}
    assert all(4 <= m.physical_cores <= 32 and 8 <= m.ways <= 20 and m.turbo_ghz >= m.frequency_ghz for m in found)
    whole = catalogs.platform("e5-2697v4")
    home = catalogs.service("moses", whole.id).max_load
    for machine in (m for m in found[:8] if m.cpus == m.physical_cores):
        cores, clock = machine.cpus / whole.physical_cores, machine.frequency_ghz / whole.frequency_ghz
        bears = home * cores * clock / (2 * whole.smt_speed)
        assert service_of("moses", machine.id).max_load == pytest.approx(min(bears, home))  # its lock is no faster


@pytest.mark.parametrize("name", ["moses~1", "redis~2", "nginx~3", "mongodb~4"])
@pytest.mark.parametrize("platform", ["e5-2697v4", "e5-2630v4@6x8", "e5-2697v4~3"])
def test_a_variant_just_meets_its_target_on_the_whole_machine(name: str, platform: str) -> None:
    machine, service = platform_of(platform), service_of(name, platform)
    assert ideal_ms(machine, service, 1.0) <= service.target_ms < ideal_ms(machine, service, 1.01)


def test_variants_differ_from_each_other_and_stay_the_same() -> None:
    names = variants_of(("moses", "xapian"), 5)
    assert names[:2] == variants_of(("moses", "xapian"), 1)
    found = [service_of(name, "e5-2697v4") for name in names]
    assert len({service.instructions for service in found}) == 10
    service_of.cache_clear()
    assert [service_of(name, "e5-2697v4") for name in names] == found
    parent = catalogs.service("moses", "e5-2697v4")
    assert all(1 / 4 <= s.instructions / parent.instructions <= 4 for s in found if s.name.startswith("moses"))


@pytest.mark.parametrize(
    ("name", "platform", "said"),
    [
        ("moses~x", "e5-2697v4", "service is 'moses~x', expected moses~NUMBER with a number from 1 to 10000"),
        ("moses~0", "e5-2697v4", "service is 'moses~0'"),
        ("moses", "e5-2697v4@8", "platform is 'e5-2697v4@8', expected e5-2697v4@CORESxWAYS"),
        ("moses", "e5-2697v4@99x2", "cores is 99, expected 1 to 36"),
        ("moses", "e5-2697v4~0", "platform is 'e5-2697v4~0', expected e5-2697v4~NUMBER with a number from 1 to 10000"),
        ("moses", "e5-2697v4~2@8x4", "platform is 'e5-2697v4~2@8x4'"),
    ],
)
def test_wrong_names_are_refused_with_a_sentence(name: str, platform: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        service_of(name, platform)
    assert said in str(caught.value)


def test_they_are_swept_as_others_are(small_sweep: Callable[..., Any], tmp_path: Path) -> None:
    sweep = small_sweep(
        platforms=("e5-2630v4", "e5-2630v4@6x8"), services=("moses", *variants_of(("moses",), 2)), rows=6000
    )
    folder = collecting.collect_labelled(tmp_path / "set", sweep)
    source = examples.ExampleSource(folder, "a2")
    assert source.services == ("moses", "moses~1", "moses~2")
    assert source.platforms == ("e5-2630v4", "e5-2630v4@6x8")
    found = source.table()
    cores = found.context[:, source.context.index("platform_cores")]
    assert {(source.platforms[p], float(c)) for p, c in zip(found.platform, cores, strict=True)} == {
        ("e5-2630v4", 10.0),
        ("e5-2630v4@6x8", 6.0),
    }
    small = found.x[found.platform == 1]
    assert small[:, source.inputs.index("cores")].max() <= 6
