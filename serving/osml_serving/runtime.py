"""The parts that one server process is made of, put together once and handed to the routes."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from osml.base.failure import InputError
from osml.decide.outlook import check_outlook
from osml.experiences.writer import Writer
from osml_serving.addresses.place import Place
from osml_serving.blame.blamer import Blamer
from osml_serving.datasets.shelf import DatasetShelf
from osml_serving.decider import Decider
from osml_serving.experience_writer import make_writer
from osml_serving.guards.rate_limit import NodeRate
from osml_serving.guards.time_share import TimeShare
from osml_serving.guards.tokens import Tokens, read_tokens
from osml_serving.log import Log
from osml_serving.metrics import Metrics
from osml_serving.models.shelf import ModelShelf
from osml_serving.readiness import Readiness
from osml_serving.renewal import Stamps, Watched, stamps_of
from osml_serving.rollout.canary_models import CanaryModels, open_canary_models
from osml_serving.rollout.figures import CanaryFigures
from osml_serving.rollout.returns import Returns
from osml_serving.rollout.rollout import Rollout
from osml_serving.settings import Settings
from osml_serving.shadow.figures import ShadowFigures
from osml_serving.shadow.follower import Follower
from osml_serving.shadow.tally import ShadowTally
from osml_serving.slow.policy_process import PolicyProcess
from osml_serving.tls import load_certificate, load_peer_certificate, make_context, make_peer_context
from osml_serving.view.broker import Broker
from osml_serving.view.explain import ModelInUse
from osml_serving.view.history import History


@dataclass(frozen=True)
class Runtime:
    """Everything but policies, models and rollout only looks on: losing it at a restart changes no decision."""

    settings: Settings
    decider: Decider
    log: Log
    metrics: Metrics
    broker: Broker
    rate: NodeRate
    tokens: Tokens | None
    readiness: Readiness
    experiences: Writer | None
    slow: Mapping[str, PolicyProcess]
    rollout: Rollout
    shadows: Follower
    shadow_tally: ShadowTally
    blamer: Blamer
    tls: ssl.SSLContext | None = None
    peer_tls: ssl.SSLContext | None = None
    shelf: ModelShelf | None = None
    datasets: DatasetShelf | None = None
    history: History = field(default_factory=History)
    share: TimeShare = field(default_factory=TimeShare)
    place: Place | None = None  # of a worker
    first: Stamps = field(default_factory=dict[Path, tuple[int, ...] | None])  # of `files_of`, before their first read

    def reload_tokens(self) -> None:
        """Read the token file again, and end the event streams, which were opened with tokens of before.

        A file that can't be used changes nothing, and the log says why.
        """
        if self.tokens is None or self.settings.token_file is None:
            self.log.event("info", "tokens", "no token file is configured, so SIGHUP reloads nothing")
            return
        try:
            self.tokens.replace(read_tokens(self.settings.token_file))
            self.broker.end_all()
        except InputError as error:
            self.log.event("error", "tokens", f"the token file was not reloaded, the old tokens stay valid: {error}")
        else:
            self.log.event("info", "tokens", f"the token file {self.settings.token_file} was reloaded")

    def reload_certificate(self) -> None:
        """Use the certificate as it is in its files now; where that is none, the old one, and the log says why."""
        try:
            if self.tls is not None:
                load_certificate(self.tls, self.settings)
                self.log.event("info", "tls", f"the certificate {self.settings.tls_cert} was reloaded")
            if self.peer_tls is not None:
                load_peer_certificate(self.peer_tls, self.settings)
        except InputError as error:
            self.log.event("error", "tls", f"the certificate was not reloaded, the old one stays in use: {error}")

    @property
    def watched(self) -> list[Watched]:
        """Files that are read again when they change."""
        reload = self.reload_tokens, self.reload_certificate, self.rollout.reload
        return [Watched(files, again, self.first) for files, again in zip(files_of(self.settings), reload, strict=True)]

    def state_discarded(self, policy: str, detail: str) -> None:
        """Count and log that a policy started anew, because it failed with the state that the node sent."""
        self.metrics.states_discarded.inc()
        message = f"policy '{policy}' failed with the state that a node sent, and started anew"
        self.log.fault("state_discarded", message, detail)

    def models_of(self, platform: str, canary: str | None = None) -> list[ModelInUse]:
        """Models that decide for a platform, for a node of a canary or any other."""
        own = None if canary is None else self.rollout.models_of(canary, platform)
        if own is not None:
            return own
        return [] if self.shelf is None else self.shelf.in_use(platform)


def files_of(settings: Settings) -> tuple[list[Path], list[Path], list[Path]]:
    """Token file, certificates with their keys, rollout file; empty where none is set."""
    pairs = settings.tls_cert, settings.tls_key, settings.peer_cert, settings.peer_key
    groups = (settings.token_file,), pairs, (settings.rollout,)
    tokens, certificates, rollout = ([file for file in group if file is not None] for group in groups)
    return tokens, certificates, rollout


def make_runtime(
    settings: Settings,
    decider: Decider,
    log: Log | None = None,
    shelf: ModelShelf | None = None,
    place: Place | None = None,
) -> Runtime:
    """Build the parts. Raises Failure for a file, a folder, a store or a package that can't be used."""
    first = stamps_of(file for group in files_of(settings) for file in group)
    if settings.twins is not None:
        check_outlook("twin", settings.twins)
    metrics = Metrics(decider.policies)
    log = log or Log(settings.log_format, settings.log_level)
    writer = make_writer(settings, log, metrics)
    tally = ShadowTally()

    slow = {name: PolicyProcess(name, settings.slow_policy_timeout_s, decider, log) for name in sorted(decider.slow)}

    def open_models(folder: Path) -> CanaryModels:
        return open_canary_models(decider, folder, log)

    def ready(policy: str) -> bool:
        return policy not in slow or slow[policy].ready.is_set()

    def fault(policy: str) -> str | None:
        """Why a policy decides nothing at this moment."""
        if policy in decider.unavailable:
            return f"policy '{policy}' is not available: {decider.unavailable[policy]}"
        return None if ready(policy) else f"the process of policy '{policy}' is starting"

    readiness = Readiness(metrics.ready, lambda: fault(decider.default_policy))

    def decides(policy: str) -> bool:
        return fault(policy) is None and (policy != decider.default_policy or readiness.blocked is None)

    runtime = Runtime(
        settings=settings,
        decider=decider,
        log=log,
        metrics=metrics,
        broker=Broker(metrics),
        rate=NodeRate(settings.max_node_rate),
        tokens=None if settings.token_file is None else read_tokens(settings.token_file),
        readiness=readiness,
        experiences=writer,
        slow=slow,
        rollout=Rollout(
            settings.rollout, decider, Returns(writer, log, workers=settings.workers), open_models, log, ready
        ),
        shadows=Follower((settings.seed, settings.models, settings.twins), tally.add, tally.lose, log),
        shadow_tally=tally,
        blamer=Blamer(settings.twins, log),
        tls=make_context(settings),
        peer_tls=make_peer_context(settings),
        shelf=shelf,
        datasets=None if settings.datasets is None else DatasetShelf(settings.datasets, log),
        place=place,
        first=first,
    )
    decider.discarded = runtime.state_discarded
    metrics.watch_policies(decides)
    metrics.watch_nodes(runtime.history.figures)
    metrics.registry.register(CanaryFigures(runtime.rollout.states))
    metrics.registry.register(ShadowFigures(tally))
    metrics.watch_log(lambda: log.lost)
    return runtime
