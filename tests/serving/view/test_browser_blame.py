"""Who slows whom, on the page: a real server process, a twin, and a real Chromium."""

import asyncio

import httpx
import msgspec
import pytest
from msgspec.structs import replace

from osml.twin.document import save
from osml.twin.make import made
from tests.kit import chromium
from tests.kit.twin_records import watched

pytestmark = pytest.mark.skipif(chromium.CHROMIUM is None, reason="chromium is not installed")
JSON = {"content-type": "application/json"}
SAID = "document.getElementById('blame').innerText"
STATE = "document.getElementById('blame-state').textContent"


@pytest.mark.timeout(400)
def test_the_button_asks_the_twin_of_the_node(browser, start_process, tmp_path):
    record = watched()
    twins = tmp_path / "twins"
    twins.mkdir()
    save(made(record, seed=0), twins / f"{record.node}.json")
    server = start_process("--twins", str(twins), "--max-node-rate", "1000")
    for line in record.lines[-20:]:
        body = msgspec.json.encode(replace(line.observation, policy="arq"))
        assert httpx.post(f"{server.url}/v1/decisions", content=body, headers=JSON).is_success

    async def scenario():
        async with chromium.open_page(browser, server.url) as page:
            await page.until("!document.getElementById('blame-panel').hidden")
            await page.ask("document.getElementById('blame-ask').click()")
            await page.until(f"{STATE}.includes('some seconds')")
            await page.until(f"{SAID}.includes('service-2')", 150)
            assert "(simulated)" in await page.ask(SAID)
            assert "intervals under the present allocation" in await page.ask(STATE)
            assert await page.ask("document.querySelectorAll('#blame tbody tr').length") >= 1
            assert page.errors == []

    asyncio.run(scenario())


def test_a_server_without_twins_has_no_button(browser, start_process):
    server = start_process()
    body = msgspec.json.encode(replace(watched().lines[0].observation, policy="arq"))
    assert httpx.post(f"{server.url}/v1/decisions", content=body, headers=JSON).is_success

    async def scenario():
        async with chromium.open_page(browser, server.url) as page:
            await page.until("!document.getElementById('main').hidden")
            assert await page.ask("document.getElementById('blame-panel').hidden")
            assert page.errors == []

    asyncio.run(scenario())


TELL = """import("/static/js/blame_panel.js").then(({ BlamePanel }) => {
  const service = { name: "web", words: "", measured_ms: 2, alone_ms: 1, suffers_ms: 1, causes: [] };
  const panel = new BlamePanel();
  const told = (services, reason) => {
    panel.show({ intervals: 7, services, reason });
    return document.getElementById("blame-state").textContent;
  };
  return [told([service], null), told([], "db is late"), told([service], "db is late")];
})"""


def test_of_whom_nothing_can_be_told_stands_beside_the_others(browser, start_process):
    server = start_process()

    async def scenario():
        async with chromium.open_page(browser, server.url) as page:
            return await page.ask(TELL)

    by = "by the last 7 intervals under the present allocation"
    assert asyncio.run(scenario()) == [by, "db is late", f"{by}. db is late"]
