"""The scheduling space on the page: nothing but what was measured, what a model said, and the way from cell to cell."""

import asyncio
import json

import httpx
import msgspec
import pytest
from osml_serving.example import EXAMPLE

from osml.domain import Latency, Partition, Region
from tests.kit import chromium

pytestmark = pytest.mark.skipif(chromium.CHROMIUM is None, reason="chromium is not installed")
MOSES = "document.querySelector('[data-space=\"moses\"]')"
FORECAST = {
    "service": "moses",
    "model": "a2-test",
    "rcliff": {"cores": 6, "ways": 5},
    "rcliff_upper": {"cores": 7, "ways": 6},
    "oaa": {"cores": 9, "ways": 7},
    "coverage": 0.9,
    "familiar": True,
    "oaa_bandwidth_gbps": None,
    "action": [-1, 2],
    "q": 0.14,
}
CELLS = [(None, 12, 8, 5.0), ((12, 8), 10, 8, 7.0), ((10, 8), 10, 8, None), ((10, 8), 9, 7, 9.5), ((9, 7), 10, 7, 20.0)]


def timeline(forecast=None, ways=20, quantum=1.0, cells=CELLS):
    """A timeline as the page keeps it: one LC service, given one cell after the other."""
    points = []
    for seq, (held, cores, given_ways, latency_ms) in enumerate(cells):
        service = {
            "name": "moses",
            "class": "lc",
            "latency_ms": latency_ms,
            "target_ms": 10.0,
            "cores": cores,
            "ways": given_ways,
            "held": held and {"cores": held[0], "ways": held[1]},
        }
        reasons = [{"text": f"because of {seq}", "service": "moses", "change": -1}]
        points.append(
            {
                "seq": seq,
                "at": 1000.0 + seq,
                "services": [service],
                "reasons": reasons,
                "forecasts": [forecast] if forecast else [],
            }
        )
    return {"points": points, "now": {"platform": {"cores": 36, "ways": ways, "core_quantum": quantum}}}


def draw(name="moses", **knobs):
    """JavaScript that draws one card on the page and gives what is on it."""
    return f"""(async () => {{
      const [{{ SpaceCard }}, {{ spaceOf }}] = await Promise.all(
        ["space_card.js", "space_of.js"].map((file) => import(`${{location.origin}}/static/js/${{file}}`)));
      const space = spaceOf({json.dumps(timeline(**knobs))}, {json.dumps(name)});
      const card = new SpaceCard({json.dumps(name)});
      card.show(space, "1");
      document.body.append(card.element);
      const map = card.element.querySelector("svg");
      const classes = (css) => [...map.querySelectorAll(css)].map((each) => each.getAttribute("class"));
      const box = (css) => {{
        const r = map.querySelector(css)?.getBBox();
        return r ? [r.x, r.y, r.width, r.height] : null;
      }};
      const found = {{
        space: {{ cores: space.cores, ways: space.ways, visited: space.visited }},
        visited: classes(".visited"), danger: classes(".cliff, .margin"), oaa: classes(".oaa").length,
        numbers: [...map.querySelectorAll(".number")].map((each) => each.textContent),
        cliff: box(".cliff"), margin: box(".margin"), current: box(".current"), ground: box(".ground"),
        label: map.getAttribute("aria-label"), words: card.words.textContent, badge: card.badge.textContent,
        rows: [...card.rows.children].map((row) => [...row.children].map((cell) => cell.textContent)),
        strange: card.element.classList.contains("strange"),
        inside: [...map.querySelectorAll("*")].every((each) => !each.outerHTML.includes("NaN")),
      }};
      card.element.remove();
      return found;
    }})()"""


@pytest.fixture(scope="module")
def ask(process, tmp_path_factory):
    """Values of JavaScript expressions in the page of one server, all with one Chromium."""
    browser = chromium.Browser(tmp_path_factory.mktemp("browser") / "profile")

    async def on_page(expression):
        async with chromium.open_page(browser, process.url) as page:
            await page.until("document.readyState === 'complete'")
            found = await page.ask(expression)
            assert page.errors == []
            return found

    yield lambda expression: asyncio.run(on_page(expression))
    browser.close()


def test_cells_are_coloured_by_what_was_measured_while_the_service_had_them(ask):
    found = ask(draw())
    cells = {(cell["cores"], cell["ways"]): cell for cell in found["space"]["visited"]}
    assert set(cells) == {(12, 8), (10, 8), (9, 7)}, "the first observation was of a node that nobody had divided"
    assert cells[(12, 8)]["ratio"] == pytest.approx(0.7)
    assert cells[(10, 8)]["ratio"] == pytest.approx(0.95), "an interval without a measurement hides none"
    assert cells[(10, 8)]["times"] == 2
    assert cells[(9, 7)]["ratio"] == pytest.approx(2.0)
    assert sorted(found["visited"]) == ["visited v1", "visited v2", "visited v4"]


def test_without_a_forecast_nothing_is_predicted(ask):
    found = ask(draw())
    assert found["danger"] == []
    assert found["oaa"] == 0
    assert found["badge"] == "no prediction"
    assert "Nothing is predicted" in found["words"]


def test_the_cliff_is_hatched_up_to_the_prediction_and_its_margin(ask):
    found = ask(draw(forecast=FORECAST))
    left, top, width, height = found["ground"]
    columns, cores = found["space"]["ways"], found["space"]["cores"]
    for area, (x_cores, x_ways) in (("cliff", (6, 5)), ("margin", (7, 6))):
        x, y, wide, high = found[area]
        assert x == pytest.approx(left, abs=0.1)
        assert wide == pytest.approx((x_ways - 0.5) / columns * width, abs=0.2)
        assert high == pytest.approx((x_cores - 0.5) / cores * height, abs=0.2)
        assert y + high == pytest.approx(top + height, abs=0.2)
    x, y, wide, high = found["current"]
    assert x + wide / 2 == pytest.approx(left + 6.5 / columns * width, abs=0.2), "the middle of way 7"
    assert y + high / 2 == pytest.approx(top + height - 9.5 / cores * height, abs=0.2)
    assert found["oaa"] == 1


def test_the_path_is_numbered_and_stands_in_the_table_with_its_reasons(ask):
    found = ask(draw(forecast=FORECAST))
    assert found["numbers"] == ["1", "2", "3", "4"]
    assert [row[2] for row in found["rows"]] == [
        "12 CPUs, 8 ways",
        "10 CPUs, 8 ways",
        "9 CPUs, 7 ways",
        "10 CPUs, 7 ways",
    ]
    assert [row[3] for row in found["rows"]] == ["5 ms", "7 ms", "9.5 ms", "20 ms"]
    assert found["rows"][2][-1] == "because of 3"
    assert "OAA 9 CPUs, 7 ways" in found["rows"][0][5]


def test_the_map_says_in_words_what_it_shows(ask):
    found = ask(draw(forecast=FORECAST))
    assert found["label"].startswith(
        "moses has 10 CPUs, 7 ways. OAA 9 CPUs, 7 ways; cliff at 6 CPUs, 5 ways, with 90 %"
    )
    assert "Model-C: −1 CPU, +2 ways (Q 0.14)" in found["words"]  # noqa: RUF001 - a minus sign
    assert not found["strange"]
    strange = ask(draw(forecast=FORECAST | {"familiar": False, "action": None}))
    assert strange["strange"]
    assert "outside of what the model was trained on" in strange["words"]
    assert "Model-C" not in strange["words"]


@pytest.mark.parametrize(
    "knobs",
    [
        {"ways": None, "cells": [((4, 0), 5, 0, 8.0), ((5, 0), 6, 0, 11.0)]},
        {"ways": None, "forecast": FORECAST},
        {"quantum": 0.1, "cells": [((4, 3), 5, 3, 8.0)], "forecast": FORECAST},
        {"forecast": FORECAST | {"oaa": {"cores": 90.0, "ways": 40.0}, "rcliff_upper": {"cores": 80.0, "ways": 30.0}}},
        {"forecast": FORECAST | {"rcliff": {"cores": 0.0, "ways": 0.0}}},
        {"cells": []},
    ],
    ids=["no ways", "no ways, forecast", "slices", "beyond the node", "below it", "empty"],
)
def test_odd_nodes_and_predictions_are_drawn_within_the_map(ask, knobs):
    found = ask(draw(**knobs))
    assert found["inside"]
    left, top, width, height = found["ground"]
    for area in ("cliff", "margin", "current"):
        if found[area] is not None:
            x, y, wide, high = found[area]
            assert left - 0.2 <= x and x + wide <= left + width + 0.2, area
            assert top - 0.2 <= y and y + high <= top + height + 0.2, area


def test_a_live_node_has_a_map_a_service_and_best_effort_jobs_have_none(ask, process):
    regions = [Region(owners=["moses"], cores=12, ways=8), Region(owners=["xapian", "stream"], cores=24, ways=12)]
    for seq, p99_ms in enumerate((9.0, 14.0)):
        moses = msgspec.structs.replace(EXAMPLE.services[0], latency=Latency(p99_ms=p99_ms))
        observation = msgspec.structs.replace(
            EXAMPLE,
            node="space",
            policy="arq",
            seq=seq,
            time_s=12.0 + seq,
            services=[moses, *EXAMPLE.services[1:]],
            partition=Partition(regions=regions),
        )
        answer = httpx.post(
            f"{process.url}/v1/decisions",
            content=msgspec.json.encode(observation),
            headers={"content-type": "application/json"},
        )
        assert answer.status_code == 200
    shown = f"""(async () => {{
      while (!{MOSES}?.querySelector('.visited')) await new Promise((go) => setTimeout(go, 50));
      const names = [...document.querySelectorAll('[data-space]')].map((each) => each.dataset.space);
      return [{MOSES}.querySelectorAll('.visited.v2').length, names, {MOSES}.querySelector('summary').tabIndex];
    }})()"""
    cells, services, tab_index = ask(shown)
    assert cells == 1, "the newest measurement of the cell: 14 of 15 ms"
    assert services == ["moses", "xapian"]
    assert tab_index == 0, "the table opens from the keyboard"
