"""Our server keeps its contract, and the checks find a server that does not."""

import hashlib
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import httpx
import pytest
from typer.testing import CliRunner

from osml.base.failure import InputError
from osml.cli.main import application
from osml.lab.conformance.checks import CHECKS, Server, run_checks

RUN = ["lab", "conformance"]


def test_our_server_keeps_every_promise(start_process, tmp_path):
    url = start_process("--store", f"sqlite:///{tmp_path}/x.db").url
    result = CliRunner().invoke(application(), [*RUN, url, "--json"])
    told = json.loads(result.stdout)
    assert [check for check in told["checks"] if not check["passed"]] == []
    assert (result.exit_code, told["passed"]) == (0, len(CHECKS))


class Sloppy(BaseHTTPRequestHandler):
    """A server of somebody who read the page in a hurry: it answers everything with 200 and the same decision."""

    def _answer(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        decision = {"node": "conformance", "seq": 0, "policy": "x", "partition": {"regions": []}, "assignments": []}
        content = json.dumps(decision).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = _answer  # noqa: N815

    def log_message(self, *_):
        pass


@pytest.fixture
def sloppy():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Sloppy)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def test_an_address_that_is_none_is_one_sentence():
    with pytest.raises(InputError, match=r"the address is 'http://\[::1', expected one such as http://127.0.0.1:8080"):
        CliRunner().invoke(application(), [*RUN, "http://[::1"], catch_exceptions=False)


def test_a_server_that_breaks_promises_is_found_out(sloppy):
    with httpx.Client(base_url=sloppy) as client:
        faults = [found.fault for found in run_checks(Server(client, "conformance"))]
    assert sum(fault is not None for fault in faults) >= 8
    assert any("the partition is illegal" in (fault or "") for fault in faults)
    result = CliRunner().invoke(application(), [*RUN, sloppy])
    assert result.exit_code == 1
    assert "broken" in result.stdout


def _fewer_cpus(decision):
    first = decision["assignments"][0]
    first["cpus"] = first["cpus"].replace("-", ",").split(",")[0]


def _no_cpus(decision):
    decision["assignments"][0]["cpus"] = ""


def _all_cpus(decision):
    for assignment in decision["assignments"]:
        assignment["cpus"] = "0-7"


def _wide_mask(decision):
    decision["assignments"][0]["way_mask"] = "fff"


def _all_ways(decision):
    for assignment in decision["assignments"]:
        assignment["way_mask"] = "7ff"


@pytest.mark.parametrize("change", [_fewer_cpus, _no_cpus, _all_cpus, _wide_mask, _all_ways])
def test_a_decision_that_agents_refuse_is_no_kept_promise(start_process, change):
    def mutant(path, answer):
        if path != "/v1/decisions" or answer.status_code != 200:
            return answer
        decision = answer.json()
        change(decision)
        return httpx.Response(200, json=decision, headers=_kept(answer))

    assert "A decision is for the observation, and legal on the platform" in _broken(start_process().url, mutant)


def test_a_server_that_stores_an_experience_twice_is_found_out(start_process, tmp_path):
    def mutant(path, answer):
        twice = path == "/v1/experiences" and answer.status_code == 202
        return httpx.Response(202, json={**answer.json(), "duplicates": 0}) if twice else answer

    url = start_process("--store", f"sqlite:///{tmp_path}/x.db").url
    assert [name[:11] for name in _broken(url, mutant)] == ["Experiences"]


def test_each_unknown_key_has_to_be_named(start_process):
    def mutant(_path, answer):
        named = answer.headers.get("osml-unknown-keys")
        if not named:
            return answer
        keys = [key for key in named.split(",") if "services" in key]
        return httpx.Response(200, content=answer.content, headers={"osml-unknown-keys": ",".join(keys)})

    assert [name[:4] for name in _broken(start_process().url, mutant)] == ["Keys"]


def _kept(answer):
    return {key: answer.headers[key] for key in ("osml-unknown-keys",) if key in answer.headers}


def _broken(url, mutant):
    """The promises that a server breaks which answers as ours does, changed by `mutant(path, answer)`."""
    with httpx.Client(base_url=url) as inner:

        def answer(request):
            headers = {key: request.headers[key] for key in ("content-type",) if key in request.headers}
            found = inner.request(request.method, request.url.path, content=request.content, headers=headers)
            return mutant(
                request.url.path, httpx.Response(found.status_code, content=found.content, headers=_kept(found))
            )

        with httpx.Client(base_url=url, transport=httpx.MockTransport(answer)) as client:
            return [found.name for found in run_checks(Server(client, "conformance")) if found.fault is not None]


def test_a_server_that_is_not_there_breaks_every_promise():
    with httpx.Client(base_url="http://127.0.0.1:9") as client:
        found = run_checks(Server(client, "conformance"))
    assert all("no usable answer" in one.fault for one in found)


def test_with_tokens_the_checks_need_one(serve_url_with_token):
    url, token = serve_url_with_token
    for flags, code in (([], 1), (["--token-file", str(token)], 0)):
        assert CliRunner().invoke(application(), [*RUN, url, *flags]).exit_code == code


@pytest.fixture
def serve_url_with_token(start_process, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text(f"conformance:{hashlib.sha256(b'secret').hexdigest()}\n")
    tokens.chmod(0o600)
    (tmp_path / "token").write_text("secret\n")
    return start_process("--token-file", str(tokens)).url, tmp_path / "token"
