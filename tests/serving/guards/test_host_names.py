"""Without tokens, a page of a stranger that points its name at this machine gets nothing (DNS rebinding)."""

import hashlib

import msgspec
import pytest
from osml_serving.example import EXAMPLE

BODY = msgspec.json.encode(EXAMPLE)
JSON = {"content-type": "application/json"}


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil", "x"])
def test_a_name_that_is_not_ours_gets_no_answer(server, host):
    answer = server.client.post("/v1/decisions", content=BODY, headers={**JSON, "host": host})
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")
    assert "--allowed-hosts" in answer.json()["error"]["hint"]
    for path in ("/", "/v1/nodes", "/metrics", "/openapi.json"):
        assert server.client.get(path, headers={"host": host}).status_code == 403


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8080", "localhost.", "127.0.0.1", "127.0.0.1:8080", "[::1]:8080", "192.0.2.7", ""]
)
def test_addresses_and_localhost_are_ours(server, host):
    assert server.client.get("/v1/nodes", headers={"host": host}).status_code == 200


def test_configured_names_are_ours_and_probes_need_none(serve):
    server = serve(allowed_hosts="osml-server, osml.example")
    for host in ("osml-server:8080", "OSML.example"):
        assert server.client.get("/v1/nodes", headers={"host": host}).status_code == 200
    assert server.client.get("/v1/nodes", headers={"host": "evil.example"}).status_code == 403
    assert server.client.get("/readyz", headers={"host": "evil.example"}).status_code == 200


def test_with_tokens_any_name_will_do(serve, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text(f"*:{hashlib.sha256(b'all').hexdigest()}\n")
    tokens.chmod(0o600)
    headers = {"host": "any.example", "authorization": "Bearer all"}
    assert serve(token_file=tokens).client.get("/v1/nodes", headers=headers).status_code == 200
