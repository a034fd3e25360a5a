"""Files that change while the server starts are read again, as those that change later."""

import asyncio
import hashlib
import io

from osml_serving.app import create_app
from osml_serving.decider import Decider
from osml_serving.example import EXAMPLE
from osml_serving.log import Log
from osml_serving.renewal import Watched, stamps_of, watch
from osml_serving.runtime import files_of, make_runtime
from osml_serving.settings import load_settings
from starlette.testclient import TestClient

from tests.kit.server import InProcess, Refused, decide, wait_for


def test_a_change_after_the_first_stamp_is_seen_by_a_watch_that_begins_later(tmp_path):
    file = tmp_path / "file"
    file.write_text("first")
    stamps = stamps_of([file])
    file.write_text("second, and longer")
    read: list[str] = []

    async def scenario() -> None:
        watched = [Watched([file], lambda: read.append(file.read_text()), stamps)]
        watching = asyncio.create_task(watch(watched, Log("text", "error"), every_s=0.01))
        async with asyncio.timeout(60):
            while not read:
                await asyncio.sleep(0.01)
        watching.cancel()

    asyncio.run(scenario())
    assert read == ["second, and longer"]


def test_a_token_that_is_revoked_while_the_server_starts_ends(tmp_path):
    file = tmp_path / "tokens"

    def write(token: str) -> None:
        digest = hashlib.sha256(token.encode()).hexdigest()
        file.write_text(f"# {token}: files of two sizes, since times may be coarse\n*:{digest}\n")
        file.chmod(0o600)

    write("former")
    log = io.BytesIO()
    settings = load_settings({"store": "none", "token_file": file})
    runtime = make_runtime(settings, Decider(decide, ["turns"], Refused, "turns", 0), Log("json", "debug", log))
    write("the newest")
    with TestClient(create_app(runtime), "http://localhost") as client:
        server = InProcess(client, runtime, log)
        assert wait_for(lambda: server.post(EXAMPLE, authorization="Bearer the newest").status_code == 200)
        assert server.post(EXAMPLE, authorization="Bearer former").status_code == 401


def test_all_files_that_are_watched_have_a_first_stamp(serve, tmp_path):
    rollout = tmp_path / "rollout.yaml"
    rollout.write_text("schema: osml/rollout/v1")
    settings = load_settings({"store": "none", "rollout": rollout})
    assert [rollout] in files_of(settings)
    watched = serve(rollout=rollout).runtime.watched
    assert [one.first.get(file) is not None for one in watched for file in one.files] == [True]
