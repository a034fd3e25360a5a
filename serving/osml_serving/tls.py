"""TLS of the server: the context of its certificate, and that certificate again when its files change."""

from __future__ import annotations

import ssl

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


def load_certificate(context: ssl.SSLContext, settings: Settings) -> None:
    """Let new connections use the certificate as it is now. Raises InputError; the one before stays in use then."""
    assert settings.tls_cert is not None  # noqa: S101 - for the type checker; there is a context
    try:
        make_sure = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        make_sure.load_cert_chain(settings.tls_cert, settings.tls_key, password=_no_password)
        context.load_cert_chain(settings.tls_cert, settings.tls_key, password=_no_password)
    except (OSError, ssl.SSLError, ValueError) as error:
        files = f"--tls-cert {settings.tls_cert} and --tls-key {settings.tls_key}"
        raise InputError(f"{files} cannot be used: {error}") from None


def _no_password() -> str:
    raise ValueError("the key has a password, expected one without")
