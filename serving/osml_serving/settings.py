"""The settings of the server, by flag or by environment (`OSML_PORT=9000`); a flag wins."""

from __future__ import annotations

import ipaddress
import stat
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from osml.base.failure import InputError
from osml.decide.registry import DEFAULT_POLICY
from osml_serving.addresses.peer import Wanted, parse

LogFormat = Literal["json", "text"]
LogLevel = Literal["debug", "info", "warning", "error"]


class Settings(BaseSettings):
    """Settings of one server, of all its processes. All that it keeps are experiences, and no decision needs them."""

    model_config = SettingsConfigDict(env_prefix="OSML_", frozen=True)

    host: str = Field(
        "127.0.0.1", min_length=1, description="Address of the server; any address except loopback needs tokens."
    )
    port: int = Field(8080, ge=0, le=65535, description="TCP port of the server; 0 selects a free port.")
    workers: int = Field(
        1,
        ge=1,
        le=64,
        description="Server processes on the port; each uses one core, and has connections of its own.",
    )
    policy: str = Field(DEFAULT_POLICY, min_length=1, description="Policy for observations without a policy.")
    policies: str | None = Field(
        None,
        description="Policies that agents may name, separated by commas; without it, all installed.",
    )
    slow_policy_timeout_s: float = Field(
        2.0, gt=0, le=60, description="Deadline of a decision by a slow policy (clite), s."
    )
    canary_timeout_s: float = Field(
        0.2,
        gt=0,
        le=60,
        description="Deadline of a decision by a slow policy of a canary, s; after it, the policy of the node decides.",
    )
    seed: int = Field(0, ge=0, description="Seed of all random choices of the policies.")
    log_format: LogFormat = Field("text", description="Format of the log lines.")
    log_level: LogLevel = Field("info", description="Lowest level of log lines.")
    token_file: Path | None = Field(
        None, description="File of bearer tokens, made by `osml run tokens`; without it, no token is required."
    )
    insecure: bool = Field(False, description="Allow any address without tokens.")
    tls_cert: Path | None = Field(None, description="Certificate chain of the server, PEM; without it, no TLS.")
    tls_key: Path | None = Field(None, description="Key of the certificate, PEM, without a password.")
    tls_client_ca: Path | None = Field(
        None, description="CA of clients, PEM; with it, each client needs a certificate of this CA."
    )
    allowed_hosts: str | None = Field(
        None,
        description=(
            "Names of this server in the header Host, separated by commas. Without tokens, it accepts only these, "
            "localhost and IP addresses."
        ),
    )
    max_body_kib: int = Field(256, ge=1, le=65536, description="Longest request body, KiB.")
    max_in_flight: int = Field(256, ge=1, description="Most requests in progress; further requests get 503.")
    body_timeout_s: float = Field(5.0, gt=0, le=60, description="Timeout for the body of a request, s.")
    max_node_rate: float = Field(200.0, gt=0, description="Rate limit of one node, observations per second.")
    models: Path | None = Field(None, description="Model folder of the policy osml; without it, the shipped models.")
    models_poll_s: float = Field(3.0, gt=0, description="Interval of the search for new models, s.")
    store: str = Field(
        "sqlite",
        description=(
            "Experience store: sqlite (a file in the state directory), sqlite:///FILE, postgresql://..., or none."
        ),
    )
    store_rows: int = Field(
        50_000, ge=1, description="Most experiences in the store; beyond it, the nodes with most lose their oldest."
    )
    store_days: float = Field(30.0, gt=0, description="Age at which experiences are deleted as new ones come, days.")
    datasets: Path | None = Field(
        None, description="Folder for contributed data sets; without it, the server takes none."
    )
    max_dataset_mib: int = Field(512, ge=1, le=1 << 20, description="Largest package of a data set, MiB.")
    peers: str | None = Field(
        None,
        description=(
            "Other servers of the fleet, separated by commas: http(s)://HOST:PORT, or dns+http(s)://NAME:PORT for all "
            "addresses of a name. The dashboard then shows the nodes of all."
        ),
    )
    peer_timeout_s: float = Field(
        2.0, gt=0, le=60, description="Timeout for the answer of another server or worker to the dashboard, s."
    )
    peer_ca: Path | None = Field(
        None, description="CA of the other servers (https), PEM; without it, the CA store of the system."
    )
    peer_cert: Path | None = Field(
        None,
        description=(
            "Certificate chain shown to other servers that ask for one, PEM; without it, the certificate of the server."
        ),
    )
    peer_key: Path | None = Field(None, description="Key of --peer-cert, PEM, without a password.")
    rollout: Path | None = Field(
        None, description="Rollout file: groups of nodes, shadow policies, canaries; it is read again when it changes."
    )
    twins: Path | None = Field(
        None,
        description="Folder of twins, NODE.json each; with it, shadow policies get a predicted E_S, and nodes a blame.",
    )
    drain_s: float = Field(1.0, ge=0, le=60, description="Time between SIGTERM (not ready) and the stop, s.")

    @property
    def allowed_policies(self) -> list[str] | None:
        """Names of the policies that agents may name; None: all."""
        return None if self.policies is None else _names(self.policies)

    @property
    def host_names(self) -> list[str]:
        """Names of this server, as clients know it."""
        return [self.host, *_names(self.allowed_hosts or "")]

    @property
    def wanted_peers(self) -> list[Wanted]:
        """The other servers. Raises ValueError for an entry that is no address."""
        return [parse(one) for one in _names(self.peers or "")]

    @field_validator("models", "datasets", "rollout", "twins", mode="before")
    @classmethod
    def _without_a_name(cls, value: object) -> object:
        """An empty variable names nothing. Without this it would be the current folder."""
        return None if value == "" else value

    @model_validator(mode="after")
    def _addresses(self) -> Self:
        _ = self.wanted_peers
        return self

    @model_validator(mode="after")
    def _models_are_there(self) -> Self:
        if self.models is None:
            return self
        given = f"--models (or OSML_MODELS) is {self.models}"
        try:
            there = stat.S_ISDIR(self.models.stat().st_mode)  # is_dir() of newer Pythons swallows every error
        except (FileNotFoundError, NotADirectoryError):
            there = False
        except OSError as error:  # such as a folder above it that this user may not enter
            raise ValueError(f"{given}, which can't be read ({error.strerror}); name a folder of models") from None
        if not there:
            raise ValueError(f"{given}, which is no folder; name a folder of models")
        return self

    @model_validator(mode="after")
    def _shared_port(self) -> Self:
        if self.workers > 1 and self.port == 0:
            raise ValueError("--workers (or OSML_WORKERS) share a port, but --port is 0: set it to a fixed port")
        if self.workers > 1 and self.datasets is not None:
            raise ValueError(
                f"--datasets is {self.datasets} and --workers is {self.workers}: one worker at most may own a folder "
                "of data sets; collect them with a server of its own"
            )
        return self

    @model_validator(mode="after")
    def _safe(self) -> Self:
        if self.token_file is None and not self.insecure and not is_loopback(self.host):
            raise ValueError(
                f"other machines can reach host {self.host}, but no token file is set: set --token-file, or allow open "
                "access with --insecure"
            )
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("--tls-cert and --tls-key belong together: set both or none")
        if (self.peer_cert is None) != (self.peer_key is None):
            raise ValueError("--peer-cert and --peer-key belong together: set both or none")
        if self.tls_client_ca is not None and self.tls_cert is None:
            raise ValueError("--tls-client-ca needs TLS: set --tls-cert and --tls-key")
        return self


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def is_loopback(host: str) -> bool:
    """True for addresses that only this machine reaches. Names other than localhost could resolve to anything."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def as_environment(settings: Settings) -> dict[str, str]:
    """The variables that give the same settings."""
    given = settings.model_dump()
    return {f"OSML_{name.upper()}": str(value) for name, value in given.items() if value is not None}


def load_settings(flags: dict[str, object]) -> Settings:
    """Settings out of flags (None = not given), environment and defaults.

    Raises InputError with one sentence per wrong value.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    try:
        return Settings(**given)  # pyright: ignore[reportArgumentType] - pydantic checks them, that is the point
    except ValidationError as error:
        raise InputError("; ".join(_sentence(dict(problem)) for problem in error.errors())) from None


def _sentence(problem: dict[str, object]) -> str:
    message = str(problem["msg"]).removeprefix("Value error, ")
    location = problem["loc"]
    if not isinstance(location, tuple) or not location:
        return message
    name = str(location[0])  # pyright: ignore[reportUnknownArgumentType]
    flag = "--" + name.replace("_", "-")
    return f"{flag} (or OSML_{name.upper()}) is {problem['input']!r}, expected: {message[0].lower()}{message[1:]}"
