"""`osml run tokens` writes the file that the server reads."""

import json
import threading
import time

import httpx
import msgspec
import pytest
from osml_serving import tokens_command
from osml_serving.example import EXAMPLE
from osml_serving.guards.tokens import read_tokens
from typer.testing import CliRunner

from osml.base.failure import InputError

JSON = {"content-type": "application/json"}


def run(file, *arguments):
    return CliRunner().invoke(tokens_command.app, [*arguments, "--file", str(file)])


def create(file, *arguments) -> str:
    result = run(file, "create", *arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout.strip()


def test_a_created_token_is_known_and_only_its_hash_is_in_the_file(tmp_path):
    file = tmp_path / "tokens"
    token = create(file, "--node", "node-17", "--node", "node-18", "--name", "rack-3")
    assert len(token) >= 43
    assert token not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    grant = read_tokens(file).grant_of(token)
    assert (grant.scope, grant.nodes, grant.expired) == ("agent", {"node-17", "node-18"}, False)
    assert json.loads(run(file, "list", "--json").stdout)["tokens"][0]["id"] == "rack-3"
    assert read_tokens(file).grant_of(token + "x") is None


def test_a_folder_that_is_not_there_is_named(tmp_path):
    file = tmp_path / "nowhere/tokens"
    failure = run(file, "create", "--node", "node-17").exception
    assert isinstance(failure, InputError)
    assert failure.exit_code == 2
    assert f"{file.parent} is no folder" in str(failure)


def test_tokens_are_listed_and_revoked_and_other_lines_stay(tmp_path):
    file = tmp_path / "tokens"
    file.write_text(f"# ours\nold-node:{'a' * 64}\n")
    file.chmod(0o640)
    token = create(file, "--scope", "metrics", "--name", "prometheus", "--days", "30")
    listed = json.loads(run(file, "list", "--json").stdout)["tokens"]
    assert [(t["id"], t["scope"], t["nodes"], t["expired"]) for t in listed] == [
        ("aaaaaaaa", "agent", ["old-node"], False),
        ("prometheus", "metrics", ["*"], False),
    ]
    assert "sha256" not in listed[1]
    assert "prometheus  metrics  *" in run(file, "list").stdout
    assert isinstance(run(file, "create", "--scope", "metrics", "--name", "prometheus").exception, InputError)
    assert run(file, "revoke", "prometheus").exit_code == 0
    assert read_tokens(file).grant_of(token) is None
    assert file.read_text() == f"# ours\nold-node:{'a' * 64}\n"
    assert file.stat().st_mode & 0o777 == 0o640
    assert "has no token 'prometheus'" in str(run(file, "revoke", "prometheus").exception)


def test_a_link_is_followed_to_the_file_that_the_server_reads(tmp_path):
    file, link = tmp_path / "secrets" / "tokens", tmp_path / "tokens"
    file.parent.mkdir()
    link.symlink_to(file)
    tokens = [create(path, "--node", "node-17", "--name", path.parent.name[:7]) for path in (file, link)]
    assert all(read_tokens(file).grant_of(token) is not None for token in tokens)
    assert run(link, "revoke", "secrets").exit_code == 0
    assert [read_tokens(file).grant_of(token) is None for token in tokens] == [True, False]
    assert link.is_symlink()
    assert not list(tmp_path.glob(".tokens*")), "the lock is beside the file: who edits it by its own name waits"


def test_a_token_expires(tmp_path):
    file = tmp_path / "tokens"
    token = create(file, "--node", "a", "--days", "0.0001")  # nine seconds
    for_ever = create(file, "--node", "b", "--days", "0")
    tokens = read_tokens(file)
    assert tokens.grant_of(token).nodes == {"a"}
    deadline = time.monotonic() + 60
    while tokens.grant_of(token) is not None:
        assert time.monotonic() < deadline, "it never expires"
        time.sleep(0.2)
    assert tokens.grant_of(for_ever).nodes == {"b"}
    assert "expired" in run(file, "list").stdout


def test_the_last_token_is_not_revoked_because_the_server_would_keep_it(tmp_path):
    file = tmp_path / "tokens"
    token = create(file, "--node", "a", "--name", "only")
    assert "is the last token" in str(run(file, "revoke", "only").exception)
    assert read_tokens(file).grant_of(token) is not None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--scope", "god"), "--scope is 'god', expected one of agent, viewer, metrics, contributor, admin"),
        ((), "--node is missing"),
        (("--node", "a b"), "--node is 'a b', expected letters"),
        (("--node", "a", "--name", "x y"), "--name is 'x y', expected up to 63"),
    ],
)
def test_wrong_flags_are_one_sentence(tmp_path, arguments, words):
    error = run(tmp_path / "tokens", "create", *arguments).exception
    assert isinstance(error, InputError)
    assert str(error).startswith(words)
    assert not (tmp_path / "tokens").exists()


@pytest.mark.parametrize(
    "line",
    [
        '{"id":"a","scope":"god","nodes":["*"],"sha256":"%s"}' % ("a" * 64),
        '{"id":"a","scope":"agent","nodes":[],"sha256":"%s"}' % ("a" * 64),
        '{"id":"a","scope":"agent","nodes":["*"],"sha256":"secret"}',
        '{"id":"a","scope":"agent","nodes":["*"],"sha256":"%s","expires":"2027-01-01T00:00:00"}' % ("a" * 64),
        '{"id":',
    ],
)
def test_a_wrong_line_is_refused_without_a_word_of_it(tmp_path, line):
    file = tmp_path / "tokens"
    file.write_text(line)
    file.chmod(0o600)
    with pytest.raises(InputError, match="line 1 is invalid, expected") as caught:
        read_tokens(file)
    assert "secret" not in str(caught.value)


def test_tokens_that_are_created_at_once_are_all_in_the_file(tmp_path):
    file = tmp_path / "tokens"
    threads = [
        threading.Thread(target=tokens_command.create, args=(file, "agent", [f"n{number}"], None, 1.0, True))
        for number in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(json.loads(run(file, "list", "--json").stdout)["tokens"]) == 20


def test_a_running_server_takes_new_tokens_and_refuses_revoked_ones_by_itself(start_process, tmp_path):
    file = tmp_path / "tokens"
    create(file, "--scope", "admin", "--name", "me")
    url = start_process("--token-file", str(file)).url
    token = create(file, "--node", "node-17", "--name", "new")

    def status() -> int:
        headers = {**JSON, "authorization": f"Bearer {token}"}
        return httpx.post(f"{url}/v1/decisions", content=msgspec.json.encode(EXAMPLE), headers=headers).status_code

    for wanted in (200, 401):
        deadline = time.monotonic() + 15
        while status() != wanted:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        run(file, "revoke", "new")
