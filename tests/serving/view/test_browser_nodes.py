"""The page of a node in a real Chromium: which node it shows, and how slow nodes and phones are shown."""

import asyncio
import json

import httpx
import msgspec
import pytest
from msgspec.structs import replace
from osml_serving.example import EXAMPLE
from typer.testing import CliRunner

from osml.cli.main import application
from tests.kit import chromium

pytestmark = pytest.mark.skipif(chromium.CHROMIUM is None, reason="chromium is not installed")
CHOSEN = "document.getElementById('node').value"
SHOWN = "[...document.querySelectorAll('[data-service]')].map(card => card.dataset.service).join()"
ABSENT = "document.getElementById('absent').textContent"


def post(url, node, names, seq=0):
    """An observation of a node with services of these names; those that begin with `job` are best effort."""
    lc, be = EXAMPLE.services[0], next(one for one in EXAMPLE.services if one.kind == "be")
    services = [replace(be if name.startswith("job") else lc, name=name) for name in names]
    seen = replace(
        EXAMPLE, node=node, seq=seq, services=services, partition=None, assignments=[], outcome=None,
        policy_state=None, policy="arq",
    )  # fmt: skip
    body = msgspec.json.encode(seen)
    answer = httpx.post(f"{url}/v1/decisions", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 200, answer.text


def test_the_page_shows_the_node_that_the_address_names(browser, start_process):
    server = start_process()
    post(server.url, "one", ["first"])
    post(server.url, "two", ["second"])

    async def scenario():
        async with chromium.open_page(browser, f"{server.url}/#two") as page:
            await page.until(f"{SHOWN} === 'second'")
            await page.ask("location.hash = 'one'")
            await page.until(f"{CHOSEN} === 'one' && {SHOWN} === 'first'")
            await page.ask("location.hash = 'ghost'")
            await page.until(f"{ABSENT} === 'Node ghost is not here. This is one.'")
            assert await page.ask(CHOSEN) == "one"
            post(server.url, "ghost", ["third"])
            await page.until(f"{CHOSEN} === 'ghost' && {SHOWN} === 'third'")
            assert await page.ask("document.getElementById('absent').hidden")
            await page.ask("history.back()")
            await page.until(f"{CHOSEN} === 'one'")
            assert page.errors == []
        async with chromium.open_page(browser, f"{server.url}/#100%") as page:
            await page.until(f"{ABSENT}.startsWith('Node 100% is not here.')")
            await page.until(f"{SHOWN} === 'third'")
            assert page.errors == []

    asyncio.run(scenario())


def test_a_late_answer_about_another_node_is_not_shown(browser, start_process):
    server = start_process()
    post(server.url, "one", ["first"])
    post(server.url, "two", ["second"])

    async def scenario():
        async with chromium.open_page(browser, f"{server.url}/#one") as page:
            await page.until(f"{SHOWN} === 'first'")
            await page.ask(
                "(() => { const real = window.fetch; window.fetch = async (path, options) => {"
                " if (String(path) === 'v1/nodes/two') { window.asked = true;"
                " await new Promise((go) => { window.answer = go; }); const found = await real(path, options);"
                " setTimeout(() => { window.done = true; }, 600); return found; }"  # the page draws every 250 ms
                " return real(path, options); }; })()"
            )
            await page.ask("location.hash = 'two'")
            await page.until("window.asked")
            await page.ask("location.hash = 'one'")
            await page.until(f"{CHOSEN} === 'one' && {SHOWN} === 'first'")
            await page.ask("window.answer()")
            await page.until("window.done")
            assert await page.ask(SHOWN) == "first"

    asyncio.run(scenario())


def test_charts_of_a_node_with_long_intervals_are_lines(browser, start_process):
    server = start_process()
    post(server.url, "one", ["first"])

    async def scenario():
        async with chromium.open_page(browser, server.url) as page:
            points = "[0, 10, 20, 100].map((at) => ({ at, interval_s: 10, value: at }))"
            columns = await page.ask(
                "import('/static/js/timeline.js').then(({ Timeline }) => { const line = new Timeline();"
                f" line.points = {points}; return line.columns((point) => point.value); }})"
            )
            assert columns[1] == [0, 10, 20, None, 100]
            assert (
                await page.ask("import('/static/js/timeline.js').then((m) => m.patienceOf({ interval_s: 10 }))") == 25
            )
            assert await page.ask("import('/static/js/timeline.js').then((m) => m.patienceOf({}))") == 5
            await page.until(f"{SHOWN} === 'first'")
            history = await page.ask("fetch('v1/nodes/one').then((answer) => answer.json())")
            assert history["points"][0]["interval_s"] == EXAMPLE.interval_s
            first, last = await page.ask("import('/static/js/day_panel.js').then((m) => m.shownDay(1000300))")
            assert (first, last) == (1000600 - 86400, 1000600)

    asyncio.run(scenario())


def test_a_clock_of_the_server_that_steps_back_scrambles_no_chart(browser, start_process):
    """Ten intervals, then five more after a step of 7 s; the history comes again after a reconnection."""
    server = start_process()
    post(server.url, "one", ["first"])
    made = (
        "const point = (seq, at) => ({ seq, at, time_s: seq, interval_s: 1, services: [] });"
        " const before = Array.from({ length: 10 }, (_, k) => point(k, 100 + k));"
        " const after = Array.from({ length: 5 }, (_, k) => point(10 + k, 103 + k));"
        " const line = new Timeline(); for (const one of [...before, ...after]) line.push(one, one.seq);"
    )
    told = "JSON.stringify([line.columns(() => 0)[0], line.points.map((one) => one.seq), line.now])"

    async def scenario():
        async with chromium.open_page(browser, server.url) as page:
            for again in (
                "",
                "line.merge({ points: [...before, ...after], now: 14 });",
                "line.merge({ points: [...before.slice(5), ...after], now: 14 });",
                "line.points = before; line.merge({ points: [...before, ...after], now: 14 });",
            ):
                found = await page.ask(
                    f"import('/static/js/timeline.js').then(({{ Timeline }}) => {{ {made} {again} return {told}; }})"
                )
                wanted = [[*range(100, 108)], [0, 1, 2, 10, 11, 12, 13, 14], 14]
                assert json.loads(found) == wanted, again

    asyncio.run(scenario())


def test_services_come_before_jobs_and_a_phone_labels_no_milliseconds_as_entropy(browser, start_process):
    server = start_process()
    post(server.url, "one", ["job-1", "first"])
    long = "x" * 63

    async def scenario():
        async with chromium.open_page(browser, server.url) as page:
            await page.until(f"{SHOWN} === 'first,job-1'")
            post(server.url, "one", ["job-1", "first", "second"], seq=1)
            await page.until(f"{SHOWN} === 'first,second,job-1'")
            await page.call(
                "Emulation.setDeviceMetricsOverride", width=390, height=844, deviceScaleFactor=1, mobile=True
            )
            label = "getComputedStyle(document.querySelector('%s'), '::before').content"
            post(server.url, "one", ["job-1", f"job{long[:60]}", long], seq=2)
            await page.until(f"{SHOWN} === '{long},job-1,job{long[:60]}'")
            assert await page.ask("document.documentElement.scrollWidth") <= 390
            await page.ask(
                "document.getElementById('blame').innerHTML = '<table><tr><td class=number>3</td></tr></table>'"
            )
            assert await page.ask(label % "#decisions td.number") == '"E_S "'
            assert await page.ask(label % "#blame td.number") == "none"

    asyncio.run(scenario())


@pytest.mark.parametrize("path", ["", "/fleet"])
def test_a_token_that_is_none_or_that_the_server_refuses_has_a_word(browser, start_process, tmp_path, path):
    tokens = tmp_path / "tokens"
    token = CliRunner().invoke(
        application(), ["run", "tokens", "create", "--scope", "viewer", "--name", "eyes", "--file", str(tokens)]
    ).stdout.strip()  # fmt: skip
    server = start_process("--token-file", str(tokens))
    said = "document.getElementById('refused').textContent"

    async def scenario():
        async with chromium.open_page(browser, f"{server.url}{path}") as page:
            await page.until("!document.getElementById('login').hidden")
            for text, word in (("t\u20ac", "This is no token"), ("wrong", "The server refuses this token")):
                await page.ask(f"document.getElementById('token').value = '{text}'")
                await page.ask("document.getElementById('enter').click()")
                await page.until(f"{said}.startsWith('{word}')")
            await page.ask(f"document.getElementById('token').value = '{token}'")
            await page.ask("document.getElementById('enter').click()")
            await page.until("document.getElementById('login').hidden")
            assert await page.ask(said) == ""

    asyncio.run(scenario())
