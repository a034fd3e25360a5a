"""`osml run serve`: the command that the `osml` program plugs in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from osml_serving.child_process import one_thread_in_libraries
from osml_serving.settings import Settings, load_settings

FIELDS = Settings.model_fields


def _option(field: str) -> typer.models.OptionInfo:
    """A flag whose help is the field's sentence, so that the two can't drift apart."""
    described = FIELDS[field]
    default = "none" if described.default is None else str(described.default)
    return typer.Option(help=described.description, show_default=default)


def serve(
    host: Annotated[str | None, _option("host")] = None,
    port: Annotated[int | None, _option("port")] = None,
    workers: Annotated[int | None, _option("workers")] = None,
    policy: Annotated[str | None, _option("policy")] = None,
    policies: Annotated[str | None, _option("policies")] = None,
    slow_policy_timeout_s: Annotated[float | None, _option("slow_policy_timeout_s")] = None,
    canary_timeout_s: Annotated[float | None, _option("canary_timeout_s")] = None,
    seed: Annotated[int | None, _option("seed")] = None,
    log_format: Annotated[str | None, _option("log_format")] = None,
    log_level: Annotated[str | None, _option("log_level")] = None,
    token_file: Annotated[Path | None, _option("token_file")] = None,
    insecure: Annotated[bool | None, _option("insecure")] = None,
    tls_cert: Annotated[Path | None, _option("tls_cert")] = None,
    tls_key: Annotated[Path | None, _option("tls_key")] = None,
    tls_client_ca: Annotated[Path | None, _option("tls_client_ca")] = None,
    allowed_hosts: Annotated[str | None, _option("allowed_hosts")] = None,
    max_body_kib: Annotated[int | None, _option("max_body_kib")] = None,
    max_in_flight: Annotated[int | None, _option("max_in_flight")] = None,
    body_timeout_s: Annotated[float | None, _option("body_timeout_s")] = None,
    max_node_rate: Annotated[float | None, _option("max_node_rate")] = None,
    models: Annotated[Path | None, _option("models")] = None,
    models_poll_s: Annotated[float | None, _option("models_poll_s")] = None,
    store: Annotated[str | None, _option("store")] = None,
    store_rows: Annotated[int | None, _option("store_rows")] = None,
    store_days: Annotated[float | None, _option("store_days")] = None,
    datasets: Annotated[Path | None, _option("datasets")] = None,
    max_dataset_mib: Annotated[int | None, _option("max_dataset_mib")] = None,
    peers: Annotated[str | None, _option("peers")] = None,
    peer_timeout_s: Annotated[float | None, _option("peer_timeout_s")] = None,
    peer_ca: Annotated[Path | None, _option("peer_ca")] = None,
    peer_cert: Annotated[Path | None, _option("peer_cert")] = None,
    peer_key: Annotated[Path | None, _option("peer_key")] = None,
    rollout: Annotated[Path | None, _option("rollout")] = None,
    twins: Annotated[Path | None, _option("twins")] = None,
    drain_s: Annotated[float | None, _option("drain_s")] = None,
) -> None:
    """Run the decision server and the dashboard (at /).

    Each flag has an environment variable, such as OSML_PORT for --port; the flag wins. A restart loses no decision.
    Experiences for `osml learn train c --online` are in a database.
    """
    flags: dict[str, object] = {
        "host": host,
        "port": port,
        "workers": workers,
        "policy": policy,
        "policies": policies,
        "slow_policy_timeout_s": slow_policy_timeout_s,
        "canary_timeout_s": canary_timeout_s,
        "seed": seed,
        "log_format": log_format,
        "log_level": log_level,
        "token_file": token_file,
        "insecure": insecure,
        "tls_cert": tls_cert,
        "tls_key": tls_key,
        "tls_client_ca": tls_client_ca,
        "allowed_hosts": allowed_hosts,
        "max_body_kib": max_body_kib,
        "max_in_flight": max_in_flight,
        "body_timeout_s": body_timeout_s,
        "max_node_rate": max_node_rate,
        "models": models,
        "models_poll_s": models_poll_s,
        "store": store,
        "store_rows": store_rows,
        "store_days": store_days,
        "datasets": datasets,
        "max_dataset_mib": max_dataset_mib,
        "peers": peers,
        "peer_timeout_s": peer_timeout_s,
        "peer_ca": peer_ca,
        "peer_cert": peer_cert,
        "peer_key": peer_key,
        "rollout": rollout,
        "twins": twins,
        "drain_s": drain_s,
    }
    settings = load_settings(flags)
    one_thread_in_libraries()

    # The rest of the package takes half a second to import: not for `osml --help`.
    if settings.workers > 1:
        from osml_serving.log import Log  # noqa: PLC0415
        from osml_serving.workers.supervisor import Supervisor  # noqa: PLC0415

        Supervisor(settings, Log(settings.log_format, settings.log_level)).run()
        return
    from osml_serving.start import start  # noqa: PLC0415

    start(settings)
