"""A real Chromium, driven over its debugging protocol: enough to open a page and to ask what is on it."""

import asyncio
import contextlib
import itertools
import json
import shutil
import subprocess
import time
from pathlib import Path

from websockets.asyncio.client import connect

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-port=0",
    "--window-size=1280,1000",
]


class Browser:
    """One Chromium process with a profile of its own."""

    def __init__(self, profile: Path) -> None:
        assert CHROMIUM is not None
        self.profile = profile
        self.process = subprocess.Popen(
            [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def address(self) -> str:
        """WebSocket address of the browser, once it is up."""
        file = self.profile / "DevToolsActivePort"
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, ValueError):
                port, path = file.read_text().splitlines()[:2]
                return f"ws://127.0.0.1:{port}{path}"
            time.sleep(0.1)
        raise AssertionError("Chromium did not open its debugging port")

    def close(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()


class Page:
    """One tab. `errors` collects what the page's console and the content security policy complain about."""

    def __init__(self, socket, session: str) -> None:
        self._socket = socket
        self._session = session
        self._numbers = itertools.count(1)
        self.errors: list[str] = []

    async def call(self, method: str, **params):
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params, "sessionId": self._session}
        await self._socket.send(json.dumps(message))
        while True:
            answer = json.loads(await asyncio.wait_for(self._socket.recv(), 60))
            if answer.get("id") == number and answer.get("sessionId") == self._session:
                return answer.get("result", answer)
            self._note(answer)

    def _note(self, event) -> None:
        if event.get("method") == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(event["params"]["exceptionDetails"])[:400])
        if event.get("method") == "Log.entryAdded" and event["params"]["entry"]["level"] == "error":
            self.errors.append(event["params"]["entry"]["text"])

    async def ask(self, expression: str):
        """Value of a JavaScript expression in the page; of a promise, what it promised."""
        answer = await self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        return answer["result"].get("value")

    async def until(self, expression: str, timeout_s: float = 30):
        """Wait until an expression is true."""
        deadline = time.monotonic() + timeout_s
        while not await self.ask(expression):
            if time.monotonic() > deadline:
                text = await self.ask("document.body.innerText")
                raise AssertionError(f"never true: {expression}\nerrors: {self.errors}\npage:\n{text}")
            await asyncio.sleep(0.1)


@contextlib.asynccontextmanager
async def open_page(browser: Browser, url: str):
    """A new tab on an address."""
    async with connect(browser.address(), max_size=None) as socket:
        await socket.send(json.dumps({"id": 0, "method": "Target.createTarget", "params": {"url": "about:blank"}}))
        target = json.loads(await socket.recv())["result"]["targetId"]
        attach = {"id": 0, "method": "Target.attachToTarget", "params": {"targetId": target, "flatten": True}}
        await socket.send(json.dumps(attach))
        while "result" not in (answer := json.loads(await socket.recv())):
            pass
        page = Page(socket, answer["result"]["sessionId"])
        for domain in ("Runtime", "Log", "Page"):
            await page.call(f"{domain}.enable")
        await page.call("Page.navigate", url=url)
        try:
            yield page
        finally:  # an open tab holds a stream, and a browser has six connections to a server
            await socket.send(json.dumps({"id": 0, "method": "Target.closeTarget", "params": {"targetId": target}}))
