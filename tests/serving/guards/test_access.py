import hashlib
import json

import msgspec
import pytest
from osml_serving.example import EXAMPLE
from osml_serving.guards.tokens import read_tokens

from osml.base.failure import InputError
from tests.kit.server import wait_for


def digest(token):
    return hashlib.sha256(token.encode()).hexdigest()


@pytest.fixture
def token_file(tmp_path):
    path = tmp_path / "tokens"
    path.write_text(f"# nodes\nnode-17:{digest('old')}\nnode-17:{digest('new')}\n\n*:{digest('all')}\n")
    path.chmod(0o600)
    return path


@pytest.fixture
def guarded(serve, token_file):
    return serve(token_file=token_file)


@pytest.mark.parametrize("token", ["old", "new", "all"])
def test_a_nodes_tokens_speak_for_it(guarded, token):
    assert guarded.post(EXAMPLE, authorization=f"Bearer {token}").status_code == 200


@pytest.mark.parametrize(
    "header",
    [
        {},
        {"authorization": "Bearer "},
        {"authorization": "Basic b2xk"},
        {"authorization": "Bearer wrong"},
        {"authorization": "Bearer \u00e9"},
    ],
)
@pytest.mark.parametrize("path", ["/v1/nodes", "/v1/nodes/node-17", "/v1/events?node=node-17", "/metrics"])
def test_without_a_known_token_there_is_nothing_to_see(guarded, header, path):
    encoded = {name: value.encode("latin-1") for name, value in header.items()}
    answer = guarded.client.get(path, headers=encoded)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert answer.json()["error"]["code"] == "unauthorized"


def test_a_token_does_not_speak_for_another_node(guarded):
    other = msgspec.structs.replace(EXAMPLE, node="node-18")
    answer = guarded.post(other, authorization="Bearer old")
    assert (answer.status_code, answer.json()["error"]["field"]) == (403, "node")
    assert guarded.client.get("/v1/nodes/node-18", headers={"authorization": "Bearer old"}).status_code == 403


def test_a_nodes_token_sees_its_own_node_only(guarded):
    for node in ("node-17", "node-18"):
        guarded.post(msgspec.structs.replace(EXAMPLE, node=node), authorization="Bearer all")
    seen = {
        token: [
            line["node"]
            for line in guarded.client.get("/v1/nodes", headers={"authorization": f"Bearer {token}"}).json()["nodes"]
        ]
        for token in ("old", "all")
    }
    assert seen == {"old": ["node-17"], "all": ["node-17", "node-18"]}


def test_metrics_of_all_nodes_want_a_token_for_all_nodes(guarded):
    assert guarded.client.get("/metrics", headers={"authorization": "Bearer old"}).status_code == 403
    assert guarded.client.get("/metrics", headers={"authorization": "Bearer all"}).status_code == 200


@pytest.mark.parametrize("path", ["/", "/healthz", "/readyz", "/openapi.json", "/static/page.css"])
def test_probes_and_the_page_itself_want_no_token(guarded, path):
    assert guarded.client.get(path).status_code == 200


@pytest.mark.parametrize("mode", [0o644, 0o602, 0o660])
def test_a_token_file_that_others_can_touch_is_refused(token_file, mode):
    token_file.chmod(mode)
    with pytest.raises(InputError, match=f"mode {mode:04o}.*chmod 0600"):
        read_tokens(token_file)


@pytest.mark.parametrize("line", ["node-17", "node-17:secret", f"no de:{'0' * 64}", f":{'0' * 64}"])
def test_a_wrong_line_is_named_and_not_repeated(tmp_path, line):
    path = tmp_path / "tokens"
    path.write_text(f"# first\n{line}\n")
    path.chmod(0o600)
    with pytest.raises(InputError, match="line 2 is invalid, expected a line of `osml run tokens create`") as caught:
        read_tokens(path)
    assert line not in str(caught.value)


@pytest.mark.parametrize("content", ["", "# nothing\n"])
def test_a_token_file_without_tokens_is_refused(tmp_path, content):
    path = tmp_path / "tokens"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(InputError, match="contains no token"):
        read_tokens(path)


def test_tokens_are_read_again_and_a_broken_file_changes_nothing(guarded, token_file):
    good = token_file.read_text()
    token_file.write_text(good.replace(digest("old"), digest("newest")))
    assert guarded.post(EXAMPLE, authorization="Bearer old").status_code == 200
    guarded.runtime.reload_tokens()
    assert guarded.post(EXAMPLE, authorization="Bearer old").status_code == 401
    assert guarded.post(EXAMPLE, authorization="Bearer newest").status_code == 200
    viewer = guarded.runtime.broker.subscribe("node-18")  # which does not report
    for broken in ("", "node-17:secret\n"):
        token_file.write_text(broken)
        guarded.runtime.reload_tokens()
        assert guarded.post(EXAMPLE, authorization="Bearer newest").status_code == 200
    assert viewer.queue.empty()
    assert b"the old tokens stay valid" in guarded.log.getvalue()
    token_file.write_text(good)
    guarded.runtime.reload_tokens()
    assert viewer.queue.get_nowait() is None, "a stream that was opened with a token of before has ended"


def test_a_revoked_token_ends_after_the_chmod_that_the_error_asks_for(guarded, token_file):
    changed = token_file.with_name("changed")
    changed.write_text(token_file.read_text().replace(digest("old"), digest("newest")))
    changed.chmod(0o644)
    changed.replace(token_file)
    assert wait_for(lambda: b"the old tokens stay valid" in guarded.log.getvalue())
    assert guarded.post(EXAMPLE, authorization="Bearer old").status_code == 200
    token_file.chmod(0o600)
    assert wait_for(lambda: guarded.post(EXAMPLE, authorization="Bearer old").status_code == 401)
    assert guarded.post(EXAMPLE, authorization="Bearer newest").status_code == 200


SCOPES = ("agent", "viewer", "metrics", "contributor", "admin")
ALLOWED = {
    ("POST", "/v1/decisions"): {"agent", "admin"},
    ("POST", "/v1/decisions:batch"): {"agent", "admin"},
    ("POST", "/v1/experiences"): {"agent", "admin"},
    ("GET", "/v1/experiences?node=node-17"): {"agent", "viewer", "admin"},
    ("GET", "/v1/nodes"): {"agent", "viewer", "admin"},
    ("GET", "/v1/nodes/node-17"): {"agent", "viewer", "admin"},
    ("GET", "/v1/nodes/node-17/explain"): {"agent", "viewer", "admin"},
    ("GET", "/v1/nodes/node-17/blame"): {"agent", "viewer", "admin"},
    ("GET", "/v1/nodes/node-17/seen"): {"agent", "viewer", "admin"},
    ("GET", "/v1/nodes/node-17/day"): {"agent", "viewer", "admin"},
    ("GET", "/v1/nodes/node-17/rollout"): {"agent", "viewer", "admin"},
    ("GET", "/v1/fleet/events"): {"agent", "viewer", "admin"},
    ("GET", "/v1/rollout"): {"agent", "viewer", "admin"},
    ("GET", "/v1/events?node=+"): {"agent", "viewer", "admin"},
    ("POST", "/v1/datasets"): {"contributor", "admin"},
    ("GET", "/v1/datasets"): {"viewer", "contributor", "admin"},
    ("GET", f"/v1/datasets/{'a' * 64}"): {"viewer", "contributor", "admin"},
    ("GET", f"/v1/datasets/{'a' * 64}/package"): {"viewer", "contributor", "admin"},
    ("GET", "/v2/models/a"): {"agent", "viewer", "admin"},
    ("POST", "/v2/models/a/infer"): {"agent", "viewer", "admin"},
    ("GET", "/metrics"): {"metrics", "admin"},
}


@pytest.fixture
def scoped(serve, tmp_path):
    path = tmp_path / "scoped"
    lines = [{"id": scope, "scope": scope, "nodes": ["node-17"], "sha256": digest(scope)} for scope in SCOPES]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    path.chmod(0o600)
    return serve(token_file=path)


@pytest.mark.parametrize(("method", "path"), ALLOWED)
def test_each_scope_reaches_what_it_is_for_and_nothing_else(scoped, method, path):
    scoped.post(EXAMPLE, authorization="Bearer agent")
    for scope in SCOPES:
        answer = scoped.client.request(method, path, headers={"authorization": f"Bearer {scope}"}, content=b"{}")
        refused = answer.status_code == 403 and "the token has scope" in answer.text
        assert refused == (scope not in ALLOWED[method, path]), (scope, answer.status_code, answer.text[:200])


def test_every_operation_of_the_document_has_a_scope(server):
    known = {(method, path.partition("?")[0]) for method, path in ALLOWED}
    ends = ("", "/explain", "/blame", "/day", "/rollout", "/seen")
    same = {f"/v1/nodes/{{node}}{end}": f"/v1/nodes/node-17{end}" for end in ends}
    same |= {f"/v1/datasets/{{identity}}{end}": f"/v1/datasets/{'a' * 64}{end}" for end in ("", "/package")}
    for path, operations in server.client.get("/openapi.json").json()["paths"].items():
        for method in operations:
            if path.startswith(("/v1", "/metrics")):
                assert (method.upper(), same.get(path, path)) in known, (method, path)


def test_a_viewer_of_one_node_sees_that_node(scoped):
    for node in ("node-17", "node-18"):
        scoped.post(msgspec.structs.replace(EXAMPLE, node=node), authorization="Bearer agent")
    headers = {"authorization": "Bearer viewer"}
    assert [line["node"] for line in scoped.client.get("/v1/nodes", headers=headers).json()["nodes"]] == ["node-17"]
    assert scoped.client.get("/v1/nodes/node-18", headers=headers).status_code == 403


def test_one_token_may_have_a_line_for_each_node_and_one_for_all(tmp_path):
    path = tmp_path / "tokens"
    path.write_text(f"a:{digest('t')}\nb:{digest('t')}\n*:{digest('u')}\na:{digest('u')}\n")
    path.chmod(0o600)
    tokens = read_tokens(path)
    assert tokens.grant_of("t").nodes == {"a", "b"}
    assert tokens.grant_of("u").scope == "admin"


def json_lines(path, *lines):
    path.write_text("".join(json.dumps({"id": "x", "sha256": digest("t"), **line}) + "\n" for line in lines))
    path.chmod(0o600)
    return path


def test_a_token_with_several_lines_ends_with_the_first_that_ends(tmp_path):
    ended = {"scope": "agent", "nodes": ["a"], "expires": "2020-01-01T00:00:00Z"}
    goes_on = {"scope": "agent", "nodes": ["b"], "expires": "2990-01-01T00:00:00Z"}
    never = {"scope": "agent", "nodes": ["c"]}
    for lines in ((ended, goes_on), (goes_on, ended), (never, ended)):
        assert read_tokens(json_lines(tmp_path / "tokens", *lines)).grant_of("t") is None
    assert read_tokens(json_lines(tmp_path / "tokens", never, goes_on)).grant_of("t").nodes == {"b", "c"}


def test_a_token_with_two_scopes_is_refused(tmp_path):
    path = json_lines(
        tmp_path / "tokens", {"scope": "viewer", "nodes": ["*"]}, {"scope": "agent", "nodes": ["node-17"]}
    )
    with pytest.raises(InputError, match="with the scopes viewer and agent"):
        read_tokens(path)
