"""The page of all nodes in a real Chromium: search, filter, sort, and ten thousand nodes."""

import asyncio
import os
import signal
import threading
import time
from typing import NamedTuple

import pytest
import uvicorn
from osml_serving.app import create_app
from osml_serving.decider import Decider
from osml_serving.log import Log
from osml_serving.runtime import Runtime, make_runtime
from osml_serving.settings import load_settings
from osml_serving.shadow.messages import Shadowed
from osml_serving.view.happenings import Event, silent_after_s
from osml_serving.view.history import History
from osml_serving.view.interval import NodeSummary

from osml.experiences.outcome import CanaryReturn
from osml.lab.trials.children import free_port
from tests.kit import chromium
from tests.kit.server import Refused, decide

pytestmark = pytest.mark.skipif(chromium.CHROMIUM is None, reason="chromium is not installed")
ROWS = "[...document.querySelectorAll('#nodes tbody tr')].map(row => row.children[%d].textContent)"
STATE = "document.getElementById('state')"
NAMES, STATES, MISSES, E_S = (ROWS % column for column in (0, 1, 2, 3))


@pytest.fixture
def fleet(request):
    """A server whose history a test can fill: its address and the history; settings are the fixture's parameter."""
    decider = Decider(decide, ["turns"], Refused, "turns", 0)
    settings = load_settings({"store": "none"} | getattr(request, "param", {}))
    runtime = make_runtime(settings, decider, Log("json", "error"))
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(create_app(runtime), port=port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    yield Fleet(f"http://127.0.0.1:{port}", runtime.history, runtime)
    server.should_exit = True
    thread.join(20)


class Fleet(NamedTuple):
    """Address, history and parts of a server."""

    url: str
    history: History
    runtime: Runtime


def add(history, node, at=None, **changes):
    line = {"seq": 1, "policy": "osml", "e_s": 0.1, "violations": 0, "services": 3} | changes
    history.append(b"{}", b"{}", NodeSummary(node=node, at=time.time() if at is None else at, **line))


def test_nodes_are_searched_filtered_and_sorted(browser, fleet):
    url, history = fleet.url, fleet.history
    add(history, "rack1-good", e_s=0.05)
    add(history, "rack1-bad", e_s=0.7, violations=2)
    add(history, "rack2-worse", e_s=0.9, violations=3, policy="parties")
    add(history, "rack2-full", e_s=0.8, violations=1, infeasible=True)
    add(history, "rack2-blind", e_s=None, unmeasured=1)
    add(history, "rack3-gone", at=time.time() - 600)

    async def scenario():
        async with chromium.open_page(browser, f"{url}/fleet") as page:
            await page.until("document.querySelectorAll('#nodes tbody tr').length === 6")
            assert await page.ask(STATES) == [
                *("✕ above target", "✕ above target", "✕ infeasible", "◔ silent", "◌ not measured", "✓ met")
            ]

            await page.ask("document.querySelectorAll('#heads button')[2].click()")
            assert await page.ask(MISSES) == ["3", "2", "1", "0", "0", "0"]
            await page.ask("document.querySelectorAll('#heads button')[3].click()")
            assert (await page.ask(NAMES))[0] == "rack2-worse"
            assert (await page.ask(E_S))[-1] == "\N{EN DASH}", "what was not measured is last"
            assert await page.ask("document.querySelector('th[aria-sort]').textContent") == "E_S"

            await set_value(page, "search", "rack2", "input")
            assert sorted(await page.ask(NAMES)) == ["rack2-blind", "rack2-full", "rack2-worse"]
            await set_value(page, "search", "PARTIES", "input")
            assert await page.ask(NAMES) == ["rack2-worse"]
            await set_value(page, "search", "", "input")
            await set_value(page, "filter", "infeasible", "change")
            assert await page.ask(NAMES) == ["rack2-full"]
            assert "✕ infeasible (1)" in await page.ask("document.getElementById('filter').innerText")
            assert await page.ask("document.querySelector('#nodes a').getAttribute('href')") == "./#rack2-full"
            assert page.errors == []

    asyncio.run(scenario())


NOBODY = f"http://127.0.0.1:{free_port()}"


@pytest.mark.parametrize("fleet", [{"peers": NOBODY}], indirect=True, ids=["one-silent-peer"])
def test_a_server_that_does_not_answer_is_told_above_the_nodes(browser, fleet):
    add(fleet.history, "rack1-good")

    async def scenario():
        async with chromium.open_page(browser, f"{fleet.url}/fleet") as page:
            await page.until("document.querySelectorAll('#nodes tbody tr').length === 1")
            state = await page.ask("[document.getElementById('state').textContent, state.dataset.state]")
            assert state == ["1 server silent, nodes may be missing", "stale"]
            assert page.errors == []

    asyncio.run(scenario())


def test_canaries_and_shadow_policies_are_above_the_nodes(browser, fleet, tmp_path):
    url, history = fleet.url, fleet.history
    add(history, "edge-1", canary="first", group="edge")
    add(history, "edge-2", group="edge")
    runtime = fleet.runtime
    runtime.shadow_tally.add(Shadowed("edge-1", "turns", 1, cores=3, lc_cores=-2, e_s=0.2, e_s_decided=0.1))
    runtime.shadow_tally.add(Shadowed("edge-1", "turns", 2))
    runtime.history.events.append(Event(time.time(), "edge-2", "missed", "redis <b>is</b> slow"))
    file = tmp_path / "rollout.yaml"
    file.write_text(
        "schema: osml/rollout/v1\ngroups: [{name: edge, nodes: [edge-*], shadow: [turns]}]\ncanaries:\n"
        "  - {name: first, percent: 25, policy: turns}\n  - {name: second, percent: 1, policy: turns}\n"
    )
    runtime.rollout._returns.add(CanaryReturn("second", 1_700_000_000.0, "it is worse"))  # pyright: ignore[reportPrivateUsage]
    runtime.rollout._path = file  # pyright: ignore[reportPrivateUsage] - as --rollout would
    runtime.rollout.reload()
    tally = runtime.rollout._tally("first")  # pyright: ignore[reportPrivateUsage]
    for hour in range(4):
        tally.add("edge-1", "canary", 3600.0, missed=hour < 2, e_s=0.1, unapplied=hour == 3)

    async def scenario():
        async with chromium.open_page(browser, f"{url}/fleet") as page:
            await page.until("!document.getElementById('canaries-panel').hidden")
            canary, taken_back = await page.ask(
                "[...document.querySelectorAll('#canaries tbody tr')].map(row => row.innerText)"
            )
            assert "✕ taken back" in taken_back
            assert "2023" in taken_back, "the day of the return"
            assert "it is worse" in taken_back
            assert "policy turns, 25 % of all nodes" in canary
            assert "● runs" in canary
            figures = " ".join(canary.replace("\N{EN DASH}", "-").split())
            assert "50.0 % / - 25.0 % / - 0.100 / -" in figures, "missed, not measured, E_S"
            await page.until("!document.getElementById('events-panel').hidden")
            assert "edge-2 ✕ redis <b>is</b> slow" in await page.ask("document.getElementById('events').innerText")
            shadow = await page.ask("document.querySelector('#shadows tbody').innerText")
            assert shadow.split() == ["turns", "2", "50.0", "%", "0", "1.5", "-1", "0.200", "0.100"]
            await set_value(page, "search", "first", "input")
            assert await page.ask(NAMES) == ["edge-1"]
            assert page.errors == []

    asyncio.run(scenario())


async def set_value(page, element, value, event):
    await page.ask(
        f"(() => {{ const e = document.getElementById('{element}'); e.value = '{value}';"
        f" e.dispatchEvent(new Event('{event}')); }})()"
    )


def test_ten_thousand_nodes_are_shown_at_once(browser, fleet):
    url, history = fleet.url, fleet.history
    for number in range(10_000):
        add(history, f"node-{number:05}", violations=int(number % 7 == 0), e_s=number / 10_000)

    async def scenario():
        async with chromium.open_page(browser, f"{url}/fleet") as page:
            await page.until("document.querySelectorAll('#nodes tbody tr').length === 200")
            assert "10000 of 10000 nodes; the first 200 are shown" in await page.ask(
                "document.getElementById('shown').textContent"
            )
            took_ms = await page.ask(
                "(() => { const began = performance.now(); const e = document.getElementById('search');"
                " e.value = 'node-0999'; e.dispatchEvent(new Event('input')); return performance.now() - began; })()"
            )
            assert len(await page.ask(NAMES)) == 10
            assert took_ms < 200

    asyncio.run(scenario())


TOLD = f"""(() => {{
  window.told = [];
  const note = () => window.told.push({STATE}.textContent);
  new MutationObserver(note).observe({STATE}, {{ childList: true, characterData: true, subtree: true }});
}})()"""
"""All that the page says of its connection from now on: later the request ends, and it says something else."""


def test_a_server_that_hangs_is_told_and_so_is_its_return(browser, start_process):
    server = start_process("--policies", "osml")

    async def scenario():
        async with chromium.open_page(browser, f"{server.url}/fleet") as fleet_page:
            await fleet_page.until("document.getElementById('state').dataset.state === 'live'")
            async with chromium.open_page(browser, server.url) as page:
                await page.until("document.getElementById('connection').dataset.state === 'waiting'")
                await fleet_page.ask(TOLD)
                os.kill(server.process.pid, signal.SIGSTOP)
                await fleet_page.until("window.told.some((text) => text.startsWith('no answer for '))", 120)
                await page.until("document.getElementById('connection').dataset.state === 'lost'", 120)
                os.kill(server.process.pid, signal.SIGCONT)
                await page.until("document.getElementById('connection').dataset.state === 'waiting'", 120)
                await fleet_page.until("document.getElementById('state').dataset.state === 'live'", 120)

    try:
        asyncio.run(scenario())
    finally:
        os.kill(server.process.pid, signal.SIGCONT)


NEVER = """(() => {
  const real = window.fetch;
  window.asked = [];
  window.fetch = (path, options) => {
    window.asked.push(path.split("?")[0]);
    return /rollout|fleet.events/.test(path) ? new Promise(() => {}) : real(path, options);
  };
})()"""


def test_a_rollout_and_events_that_do_not_come_keep_no_list_waiting(browser, fleet):
    async def scenario():
        async with chromium.open_page(browser, f"{fleet.url}/fleet") as page:
            await page.until(f"{STATE}.dataset.state === 'live'")
            await page.ask(NEVER)
            await page.until("window.asked.filter((path) => path === 'v1/nodes').length === 4", 120)
            return await page.ask("window.asked"), await page.ask(f"{STATE}.dataset.state")

    asked, state = asyncio.run(scenario())
    assert [asked.count(path) for path in ("v1/rollout", "v1/fleet/events")] == [1, 1]
    assert state == "live"


def test_page_and_server_call_a_node_silent_after_the_same_time(browser, fleet):
    intervals = [0.1, 1.0, 6.0, 59.0, 600.0, 3600.0, 1e9]

    async def scenario():
        async with chromium.open_page(browser, f"{fleet.url}/fleet") as page:
            module = "import(`${location.origin}/static/js/fleet_lines.js`)"
            return await page.ask(f"{module}.then((lines) => {intervals}.map(lines.silentAfter))")

    assert asyncio.run(scenario()) == [silent_after_s(one) for one in intervals]


OUTCOMES = """import(`${location.origin}/static/js/decisions_panel.js`).then(({ outcomesOf }) => {
  const outcome = (seq, status) => ({ seq, status });
  const points = [
    { seq: 0 }, { seq: 1, outcome: outcome(0, "applied") }, { seq: 2, outcome: outcome(1, "failed") },
    { seq: 0, outcome: outcome(2, "refused") }, { seq: 1, outcome: outcome(0, "dry_run") }, { seq: 2 },
  ];
  const found = outcomesOf(points);
  return points.map((point) => found.get(point)?.status ?? null);
})"""


def test_an_outcome_stands_beside_its_own_decision_after_a_restart_of_the_agent(browser, fleet):
    async def scenario():
        async with chromium.open_page(browser, fleet.url) as page:
            return await page.ask(OUTCOMES)

    assert asyncio.run(scenario()) == ["applied", "failed", "refused", "dry_run", None, None]
