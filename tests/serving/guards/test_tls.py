"""The server speaks TLS itself, asks for certificates of clients where told, and takes a renewed one."""

import hashlib
import socket
import ssl
import subprocess
import time

import httpx
import pytest
from osml_serving.settings import load_settings
from osml_serving.tls import make_context, make_peer_context

from osml.base.failure import InputError
from osml.lab.trials.children import free_port
from tests.kit.server import Process, wait_for


def openssl(folder, *arguments):
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


def issue(folder, name, *more):
    """A certificate of our CA for 127.0.0.1."""
    request = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}")
    openssl(folder, *request, "-keyout", f"{name}.key", "-out", f"{name}.csr")
    (folder / "ext").write_text("subjectAltName=IP:127.0.0.1\n")
    signed = ("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial")
    openssl(folder, *signed, "-extfile", "ext", "-days", "2", "-out", f"{name}.pem", *more)


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pki")
    authority = ("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=ca")
    openssl(folder, *authority, "-days", "2", "-keyout", "ca.key", "-out", "ca.pem")
    for name in ("server", "client"):
        issue(folder, name)
    return folder


@pytest.fixture
def start(tmp_path):
    running = []

    def begin(*flags, port=None) -> Process:
        process = Process(
            tmp_path, port or free_port(), "--drain-s", "0", "--store", "none", "--policies", "osml,even", *flags
        )
        running.append(process)
        deadline = time.monotonic() + 60
        while "the server listens on https" not in process.errors.read_text():
            assert process.process.poll() is None, process.errors.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return process

    yield begin
    for process in running:
        process.stop()


def flags(pki, *more):
    return ("--tls-cert", str(pki / "server.pem"), "--tls-key", str(pki / "server.key"), *more)


def test_an_agent_with_our_ca_gets_through_and_plain_http_does_not(start, pki):
    process = start(*flags(pki))
    trusted = ssl.create_default_context(cafile=pki / "ca.pem")
    assert httpx.get(f"https://127.0.0.1:{process.port}/readyz", verify=trusted).status_code == 200
    with pytest.raises(httpx.TransportError):
        httpx.get(f"https://127.0.0.1:{process.port}/readyz")
    with pytest.raises(httpx.TransportError):
        httpx.get(f"http://127.0.0.1:{process.port}/readyz")


def test_with_a_ca_of_clients_each_client_needs_a_certificate_of_it(start, pki):
    process = start(*flags(pki, "--tls-client-ca", str(pki / "ca.pem")))
    url = f"https://127.0.0.1:{process.port}/readyz"
    context = ssl.create_default_context(cafile=pki / "ca.pem")
    with pytest.raises(httpx.TransportError):
        httpx.get(url, verify=context)
    context.load_cert_chain(pki / "client.pem", pki / "client.key")
    assert httpx.get(url, verify=context).status_code == 200


@pytest.mark.parametrize("own", [True, False], ids=["own certificate", "another"])
def test_servers_with_a_private_ca_and_certificates_of_clients_ask_each_other(start, pki, own):
    ca, ports = str(pki / "ca.pem"), (free_port(), free_port())
    peers = ",".join(f"https://127.0.0.1:{port}" for port in ports)
    shown = () if own else ("--peer-cert", str(pki / "client.pem"), "--peer-key", str(pki / "client.key"))
    both = flags(pki, "--tls-client-ca", ca, "--peers", peers, "--peer-ca", ca, "--peer-timeout-s", "60", *shown)
    for port in ports:
        start(*both, port=port)
    context = ssl.create_default_context(cafile=ca)
    context.load_cert_chain(pki / "client.pem", pki / "client.key")
    for port in ports:
        found = httpx.get(f"https://127.0.0.1:{port}/v1/nodes", verify=context, timeout=90).json()
        assert (found["servers"], found["silent"]) == (2, 0)


def test_a_server_whose_ca_is_unknown_is_silent(start, pki):
    port = free_port()
    process = start(*flags(pki, "--peers", f"https://127.0.0.1:{port}", "--peer-timeout-s", "60"), port=port)
    context = ssl.create_default_context(cafile=pki / "ca.pem")
    assert httpx.get(f"https://127.0.0.1:{port}/v1/nodes", verify=context, timeout=90).json()["silent"] == 1
    assert wait_for(lambda: "CERTIFICATE_VERIFY_FAILED" in process.errors.read_text())


def shown_certificate(port) -> str:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port)) as plain, context.wrap_socket(plain) as wrapped:
        return hashlib.sha256(wrapped.getpeercert(binary_form=True)).hexdigest()


def test_a_renewed_certificate_is_taken_without_a_restart(start, pki):
    process = start(*flags(pki))
    first = shown_certificate(process.port)
    (pki / "server.key").write_text("broken")
    time.sleep(3)
    assert shown_certificate(process.port) == first
    issue(pki, "server")
    deadline = time.monotonic() + 15
    while shown_certificate(process.port) == first:
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"tls_cert": "a.pem"}, "--tls-cert and --tls-key belong together"),
        ({"peer_key": "a.key"}, "--peer-cert and --peer-key belong together"),
        ({"peers": "https://a:1", "peer_ca": "missing.pem"}, "--peer-ca is missing.pem, which cannot be used"),
        (
            {"peers": "https://a:1", "peer_cert": "missing.pem", "peer_key": "missing.key"},
            "--peer-cert missing.pem and --peer-key missing.key cannot be used",
        ),
        ({"tls_client_ca": "a.pem"}, "--tls-client-ca needs TLS"),
        ({"tls_cert": "missing.pem", "tls_key": "missing.key"}, "--tls-cert missing.pem and --tls-key missing.key"),
    ],
)
def test_wrong_settings_are_one_sentence(given, words):
    with pytest.raises(InputError) as caught:
        settings = load_settings(given)
        make_context(settings)
        make_peer_context(settings)
    assert words in str(caught.value)
