"""`/metrics` of any worker has the figures of all, each with the label `worker`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from osml_serving.addresses.place import Place, number_of
from osml_serving.headers import header_of
from osml_serving.metrics import Metrics
from osml_serving.peers.peers import Peers

PATH = "/metrics"
_SAMPLE = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)(\{)?")


class WorkerMetrics:
    """ASGI layer below the check of tokens."""

    def __init__(self, app: ASGIApp, place: Place, siblings: Peers, metrics: Metrics) -> None:
        self.app = app
        self.place = place
        self.siblings = siblings
        self.metrics = metrics
        self.registry = CollectorRegistry()
        self.up = worker_gauge(self.registry)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Gather the figures, or hand on."""
        asked = scope["type"] == "http" and scope["method"] == "GET" and scope["path"] == PATH
        if not asked or header_of(scope, self.siblings.header.encode()) is not None:
            await self.app(scope, receive, send)
            return
        others = await self.siblings.ask(PATH, header_of(scope, b"authorization"))
        self.siblings.note(others)
        texts = {self.place.number: self.metrics.text().decode()}
        for one in others:
            if one.status == 200 and one.address.socket is not None:
                texts[number_of(one.address.socket)] = one.body.decode()
        for number in range(self.place.total):
            self.up.labels(str(number)).set(number in texts)
        merged = merge_metrics(sorted(texts.items())).encode()
        await Response(merged + generate_latest(self.registry), media_type=CONTENT_TYPE_LATEST)(scope, receive, send)


def worker_gauge(registry: CollectorRegistry) -> Gauge:
    """What the other metrics do not say: which workers they are of."""
    meaning = "1 if the worker is among these metrics; 0 for one that starts or hangs. Only with --workers."
    return Gauge("osml_worker_up", meaning, ["worker"], registry=registry)


def merge_metrics(texts: Iterable[tuple[int, str]]) -> str:
    """Texts in Prometheus' format as one: each family once, with the samples of all workers."""
    families: dict[str, list[str]] = {}
    for worker, text in texts:
        samples: list[str] = []
        for line in text.splitlines():
            if line.startswith("# HELP "):
                samples = families.setdefault(line, [])
            elif line.startswith("# TYPE "):
                if not samples:
                    samples.append(line)
            elif line:
                samples.append(_labelled(line, worker))
    return "".join(f"{head}\n" + "".join(f"{line}\n" for line in lines) for head, lines in families.items())


def _labelled(sample: str, worker: int) -> str:
    found = _SAMPLE.match(sample)
    if found is None:
        return sample
    rest = sample[found.end() :]
    return f'{found[1]}{{worker="{worker}",{rest}' if found[2] else f'{found[1]}{{worker="{worker}"}}{rest}'
