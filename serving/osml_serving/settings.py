"""What an operator can set, by flag or by environment (`OSML_PORT=9000`); a flag wins."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from osml.base.failure import InputError
from osml.decide.registry import DEFAULT_POLICY

LogFormat = Literal["json", "text"]
LogLevel = Literal["debug", "info", "warning", "error"]


class Settings(BaseSettings):
    """Settings of one server process. All that it keeps are experiences, and no decision needs them."""

    model_config = SettingsConfigDict(env_prefix="OSML_", frozen=True)

    host: str = Field("127.0.0.1", min_length=1, description="Address to listen on; others than loopback need tokens.")
    port: int = Field(8080, ge=0, le=65535, description="TCP port to listen on; 0 takes a free one.")
    policy: str = Field(DEFAULT_POLICY, min_length=1, description="Policy for observations that name none.")
    seed: int = Field(0, ge=0, description="Seed of every random choice a policy makes.")
    log_format: LogFormat = Field("text", description="Log lines for machines (json) or for people (text).")
    log_level: LogLevel = Field("info", description="Least severity that is logged.")
    token_file: Path | None = Field(None, description="Bearer tokens, one `node:sha256hex` a line; none = open.")
    insecure: bool = Field(False, description="Allow an address other than loopback without tokens.")
    max_body_kib: int = Field(256, ge=1, le=65536, description="Longest request body accepted, KiB.")
    max_in_flight: int = Field(256, ge=1, description="Requests worked on at once before others are told to come back.")
    body_timeout_s: float = Field(5.0, gt=0, le=60, description="Longest time a client may take to send its body.")
    max_node_rate: float = Field(200.0, gt=0, description="Observations per second accepted from one node.")
    models: Path | None = Field(None, description="Folder of models for the policy osml; none = the shipped ones.")
    models_poll_s: float = Field(3.0, gt=0, description="Seconds between two looks for new models.")
    store: str = Field(
        "sqlite",
        description="Experience store: sqlite (in the state directory), sqlite:///FILE, postgresql://..., or none.",
    )
    store_rows: int = Field(50_000, ge=1, description="Experiences kept; the oldest of the nodes with most go.")
    store_days: float = Field(30.0, gt=0, description="Days that experiences are kept.")
    datasets: Path | None = Field(None, description="Folder for contributed data sets; none = they are not taken.")
    max_dataset_mib: int = Field(512, ge=1, le=1 << 20, description="Largest contributed package, MiB.")
    drain_s: float = Field(1.0, ge=0, le=60, description="Time between 'not ready' and the stop, after SIGTERM.")

    @model_validator(mode="after")
    def _safe(self) -> Self:
        if self.token_file is None and not self.insecure and not is_loopback(self.host):
            raise ValueError(
                f"host {self.host} can be reached from other machines and no token file is set, so anybody could read "
                "and post observations: set --token-file, or say --insecure"
            )
        return self


def is_loopback(host: str) -> bool:
    """True for addresses that only this machine reaches. Names other than localhost could resolve to anything."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


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
    return f"{flag} (or OSML_{name.upper()}) is {problem['input']!r}: {message[0].lower()}{message[1:]}"
