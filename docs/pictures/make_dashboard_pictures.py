"""Makes the pictures of docs/reference/dashboard.md: a demo runs, a real Chromium looks at its dashboard (a minute)."""

from __future__ import annotations

import asyncio
import base64
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx

from osml.lab.trials.children import free_port

HERE = Path(__file__).parent
DEVTOOLS = HERE.parents[1] / "tests" / "kit" / "chromium.py"
INTERVALS = 110  # of the managed phase, when the pictures are taken: some after the load step
SPACE = "#spaces"


def _devtools() -> Any:
    spec = importlib.util.spec_from_file_location("devtools", DEVTOOLS)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{DEVTOOLS} is missing: run this in a checkout")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def _wait_for_node(url: str, demo: subprocess.Popen[bytes]) -> None:
    async with httpx.AsyncClient() as client:
        while demo.poll() is None:
            try:
                nodes = (await client.get(f"{url}/v1/nodes")).json()["nodes"]
            except httpx.HTTPError:
                nodes = []
            if any(line["node"] == "node-managed" and line["seq"] >= INTERVALS for line in nodes):
                return
            await asyncio.sleep(0.2)
    raise SystemExit("the demo ended before the pictures were taken")


async def _shoot(page: Any, name: str, width: int, scheme: str, of: str | None) -> None:
    await page.call("Emulation.setDeviceMetricsOverride", width=width, height=1000, deviceScaleFactor=1, mobile=False)
    await page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    await page.until("document.querySelectorAll('[data-space] .visited').length > 0")
    await asyncio.sleep(0.6)  # charts follow the width
    clip: dict[str, Any] = {}
    if of is not None:
        box = f"document.querySelector('{of}').closest('.panel').getBoundingClientRect()"
        found = await page.ask(f"(() => {{ const r = {box}; return [r.x, r.y + scrollY, r.width, r.height] }})()")
        x, y, wide, high = found
        clip = {"clip": {"x": x, "y": y, "width": wide, "height": high, "scale": 1}}
    shot = await page.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, **clip)
    (HERE / f"{name}.png").write_bytes(base64.b64decode(shot["data"]))


async def main() -> None:
    """Run the demo, and photograph its dashboard."""
    devtools, port = _devtools(), free_port()
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "osml", "demo", "--port", str(port), "--unmanaged-s", "20", "--out", scratch]
        demo = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        browser = devtools.Browser(Path(scratch) / "profile")
        try:
            await _wait_for_node(url, demo)
            async with devtools.open_page(browser, f"{url}/#node-managed") as page:
                await _shoot(page, "dashboard", 1280, "light", None)
                await _shoot(page, "dashboard-space", 1280, "light", SPACE)
                await _shoot(page, "dashboard-space-narrow", 390, "dark", SPACE)
        finally:
            browser.close()
            demo.terminate()
            demo.wait(30)


if __name__ == "__main__":
    asyncio.run(main())
