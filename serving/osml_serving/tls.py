"""TLS of the server and to its peers: contexts, and their certificates again when the files change."""

from __future__ import annotations

import ssl
from pathlib import Path

from osml.base.failure import InputError
from osml_serving.settings import Settings


def make_context(settings: Settings) -> ssl.SSLContext | None:
    """The context of the settings; None without TLS. Raises InputError for files that cannot be used."""
    if settings.tls_cert is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    load_certificate(context, settings)
    if settings.tls_client_ca is not None:
        try:
            context.load_verify_locations(settings.tls_client_ca)
        except (OSError, ssl.SSLError) as error:
            raise InputError(f"--tls-client-ca is {settings.tls_client_ca}, which cannot be used: {error}") from None
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def make_peer_context(settings: Settings) -> ssl.SSLContext | None:
    """The context for questions to other servers; None where none has https. Raises InputError."""
    if all(peer.scheme != "https" for peer in settings.wanted_peers):
        return None
    try:
        context = ssl.create_default_context(cafile=settings.peer_ca)
    except (OSError, ssl.SSLError) as error:
        raise InputError(f"--peer-ca is {settings.peer_ca}, which cannot be used: {error}") from None
    load_peer_certificate(context, settings)
    return context


def load_certificate(context: ssl.SSLContext, settings: Settings) -> None:
    """Let new connections use the certificate as it is now. Raises InputError; the one before stays in use then."""
    _load(context, "tls", settings.tls_cert, settings.tls_key)


def load_peer_certificate(context: ssl.SSLContext, settings: Settings) -> None:
    """As `load_certificate`, for connections to other servers."""
    if settings.peer_cert is not None:
        _load(context, "peer", settings.peer_cert, settings.peer_key)
    elif settings.tls_cert is not None:
        load_certificate(context, settings)


def _load(context: ssl.SSLContext, prefix: str, certificate: Path | None, key: Path | None) -> None:
    assert certificate is not None  # noqa: S101 - for the type checker; there is a context
    try:
        make_sure = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        make_sure.load_cert_chain(certificate, key, password=_no_password)
        context.load_cert_chain(certificate, key, password=_no_password)
    except (OSError, ssl.SSLError, ValueError) as error:
        files = f"--{prefix}-cert {certificate} and --{prefix}-key {key}"
        raise InputError(f"{files} cannot be used: {error}") from None


def _no_password() -> str:
    raise ValueError("the key has a password, expected one without")
