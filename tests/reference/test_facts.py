"""The facts that the product carries are those of the reference material."""

from pathlib import Path

import pytest
import yaml

from osml.simulator import catalogs
from osml.simulator.calibration.facts import shipped_facts

FACTS = Path(__file__).parents[3] / "shared" / "facts"
pytestmark = [
    pytest.mark.reference,
    pytest.mark.skipif(not FACTS.is_dir(), reason="no reference material beside the checkout"),
]


def published():
    return {fact.id: fact.published for fact in shipped_facts()}


def test_the_interference_table_is_complete_and_right():
    table = yaml.safe_load((FACTS / "results.yaml").read_text())["parties"]["max_load_pct_under_interference"]
    columns = table.pop("columns")
    ours = published()
    for row, values in table.items():
        for name, value in zip(columns, values, strict=True):
            assert ours[f"parties.table4.{row}.{name}"] == value


def test_the_mix_of_ahq_is_right():
    for row in yaml.safe_load((FACTS / "results.yaml").read_text())["ahq"]["table_2"]:
        if "cores" not in row:
            continue
        for name, value in {**row["real_ms"], "e_lc": row["e_lc"], "e_be": row["e_be"], "e_s": row["e_s"]}.items():
            key = f"ahq.table2.{row['cores']}_cores.{name}" + ("_ms" if name in row["real_ms"] else "")
            assert published()[key] == value


def test_loads_and_targets_of_the_catalog_are_the_published_ones():
    services = yaml.safe_load((FACTS / "services.yaml").read_text())
    for name, loads in services["osml_table_1"].items():
        assert catalogs.service(name, "e5-2697v4").max_load == loads[-1]
    for table, platform in (("parties_table_2", "e5-2699v4"), ("ahq_table_4", "e5-2630v4")):
        for name, row in services[table].items():
            model = catalogs.service(name, platform)
            assert (model.max_load, model.target_ms) == (row["max_load"], row["target_ms"])


def test_platforms_are_the_published_ones():
    for row in yaml.safe_load((FACTS / "platforms.yaml").read_text()):
        model = catalogs.platform(row["id"])
        assert (model.cpus, model.physical_cores, model.ways) == (row["cores"], row["physical_cores"], row["ways"])
        assert (model.way_mib, model.bandwidth_gbps, model.mba) == (
            row["mib_per_way"],
            row["bandwidth_gbps"],
            row["mba"],
        )
