"""The page in a real Chromium, against a real server process."""

import asyncio

import httpx
import msgspec
import pytest
from osml_serving.example import EXAMPLE

from osml.domain import DRY_RUN, CacheDomain, Latency, Outcome
from tests.kit import chromium

pytestmark = pytest.mark.skipif(chromium.CHROMIUM is None, reason="chromium is not installed")
HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
CARD = "document.querySelector('[data-service=\"%s\"]')"


def post(url, seq, p99_ms=18.4, outcome=None, platform=EXAMPLE.platform, policy="arq", **fields):
    moses = msgspec.structs.replace(EXAMPLE.services[0], latency=Latency(p99_ms=p99_ms))
    observation = msgspec.structs.replace(
        EXAMPLE,
        seq=seq,
        time_s=12.0 + seq,
        services=[moses, *EXAMPLE.services[1:]],
        outcome=outcome,
        policy=policy,
        platform=platform,
        **fields,
    )
    answer = httpx.post(
        f"{url}/v1/decisions", content=msgspec.json.encode(observation), headers={"content-type": "application/json"}
    )
    assert answer.status_code == 200


def test_each_cache_domain_has_a_strip_of_its_own_ways(browser, start_process):
    server = start_process()

    async def scenario():
        async with chromium.open_page(browser, server.url) as page:
            domains = [CacheDomain(0, "0-8,18-26"), CacheDomain(1, "9-17,27-35")]
            platform = msgspec.structs.replace(EXAMPLE.platform, domains=domains, regions_in_domains=True)
            post(server.url, 0, platform=platform)
            await page.until("document.querySelectorAll('.cells li').length === 36 + 20 + 20")
            assert "Cache ways of domain 1" in await page.ask("document.getElementById('owners').innerText")
            await page.until(
                "document.querySelector('#ways-chart [aria-label], #ways-chart').ariaLabel.includes('ways of 40')"
            )

    asyncio.run(scenario())


def test_a_node_appears_lives_and_survives_a_restart_of_the_server(browser, start_process):
    server = start_process()

    async def scenario():
        async with chromium.open_page(browser, server.url) as page:
            await page.until("!document.getElementById('empty').hidden")
            assert server.url in await page.ask("document.getElementById('empty').innerText")

            post(server.url, 0)
            await page.until(f"{CARD % 'moses'} !== null")
            assert "18.4 ms" in await page.ask(f"{CARD % 'moses'}.innerText")
            assert "✕ violated" in await page.ask(f"{CARD % 'moses'}.innerText")
            assert "✓ met" in await page.ask(f"{CARD % 'xapian'}.innerText")
            assert "best effort" in await page.ask(f"{CARD % 'stream'}.innerText")
            assert 0 < float(await page.ask("document.getElementById('e_s').textContent")) < 1
            assert await page.ask("document.querySelectorAll('canvas').length") >= 6
            assert await page.ask("document.querySelectorAll('.cells li').length") == 36 + 20

            await page.until("document.getElementById('connection').dataset.state === 'live'")
            post(server.url, 1, p99_ms=9.0)
            await page.until(f"{CARD % 'moses'}.innerText.includes('✓ met')")
            await page.until("document.getElementById('connection').dataset.state === 'stale'")

            server.process.kill()
            server.process.wait()
            await page.until("document.getElementById('connection').dataset.state === 'lost'")
            again = start_process(port=server.port)
            await page.until("document.getElementById('connection').dataset.state !== 'lost'")
            post(again.url, 2, p99_ms=31.0)
            await page.until(f"{CARD % 'moses'}.innerText.includes('31 ms')")
            rows = await page.ask("document.querySelector('#decisions tbody').innerText")
            assert "#0 – 2" in rows, "what was seen before the restart stays on the page"  # noqa: RUF001

    asyncio.run(scenario())


def test_text_from_outside_is_shown_and_never_run(browser, start_process):
    server = start_process()
    post(server.url, 0)
    post(server.url, 1, outcome=Outcome(seq=0, status="refused", message=HOSTILE))

    async def scenario():
        async with chromium.open_page(browser, server.url) as page:
            await page.until("!document.getElementById('notice').hidden")
            assert HOSTILE in await page.ask("document.getElementById('notice').textContent")
            assert HOSTILE in await page.ask("document.getElementById('decisions').textContent")
            assert await page.ask("document.querySelectorAll('main img, main script, #notice *').length") == 0
            assert await page.ask("document.title") == "osml"
            assert page.errors == []

    asyncio.run(scenario())


def test_a_dry_run_is_said_and_its_decisions_are_not_called_applied(browser, start_process):
    server = start_process()
    watching = {DRY_RUN: "applies nothing"}
    post(server.url, 0, missing=watching)
    supposed = Outcome(0, "applied", "supposed by a dry run")
    post(server.url, 1, outcome=supposed, missing=watching, policy="even")  # a row of its own

    async def scenario():
        async with chromium.open_page(browser, server.url) as page:
            await page.until("!document.getElementById('notice').hidden")
            assert "dry-run mode" in await page.ask("document.getElementById('notice').textContent")
            decisions = await page.ask("document.getElementById('decisions').textContent")
            assert "dry run" in decisions
            assert "✓ applied" not in decisions

    asyncio.run(scenario())


def test_the_api_documentation_shows_every_operation_and_asks_no_other_host(browser, start_process):
    server = start_process()

    async def scenario():
        async with chromium.open_page(browser, f"{server.url}/docs") as page:
            await page.until("document.querySelectorAll('.opblock').length > 15")
            assert "/v1/decisions" in await page.ask("document.getElementById('docs').innerText")
            asked = "performance.getEntriesByType('resource').map(entry => new URL(entry.name).origin)"
            assert set(await page.ask(asked)) - {"null"} == {server.url}
            await page.ask("document.querySelector('.opblock-summary-control').click()")
            await page.until("document.querySelector('.opblock-body') !== null")
            assert page.errors == []

    asyncio.run(scenario())
