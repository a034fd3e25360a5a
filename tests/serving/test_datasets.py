"""`/v1/datasets`: contributed packages are taken in, checked in a process of their own, and kept or refused."""

import asyncio
import hashlib
import io
import json
import shutil
import subprocess
import sys
import tarfile
import threading
import time
from pathlib import Path

import httpx
import msgspec
import pytest
from osml_serving.api import datasets
from osml_serving.datasets import shelf as dataset_shelf
from osml_serving.datasets import worker
from osml_serving.log import Log

from osml.base.failure import Failure, InputError

pytest.importorskip("osml_training")
pytest.importorskip("pyarrow")

from osml_training.collect.collect import collect_labelled
from osml_training.collect.sweep import Sweep

from osml.datasets.checks.finding import Place, Report
from osml.datasets.contribute import Package, pack, send, wait_for_check
from osml.datasets.exchange import Source
from osml.datasets.package import unpack
from osml.datasets.validate import validate
from tests.kit import no_executable_memory

TAR = {"content-type": "application/x-tar"}


@pytest.fixture(scope="module")
def package(tmp_path_factory) -> Package:
    """What `osml learn data contribute` sends."""
    folder = tmp_path_factory.mktemp("contribution")
    sweep = Sweep(
        platforms=("e5-2630v4",),
        services=("moses", "xapian"),
        neighbours=("moses", "xapian"),
        rows=2500,
        samples=2,
        loads=(0.3, 0.6),
        threads=(1.0,),
        colocated=1,
    )
    collect_labelled(folder / "set", sweep)
    return pack(folder / "set", folder, name="a-set", contributor="somebody", description="A test.")


@pytest.fixture
def taking(start_process, tmp_path):
    return start_process("--datasets", str(tmp_path / "datasets"))


def checked(url: str, identity: str) -> dict:
    deadline = time.monotonic() + 90
    while (found := httpx.get(f"{url}/v1/datasets/{identity}").json())["state"] == "checking":
        assert time.monotonic() < deadline, "the check never ended"
        time.sleep(0.1)
    return found


def tar(*members: tuple[str, bytes], change=lambda info: info) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(change(info), io.BytesIO(content))
    return out.getvalue()


def test_a_contribution_is_taken_checked_and_kept(taking, package, tmp_path):
    answer = send(package, taking.url, None)
    assert (answer["id"], answer["state"]) == (package.id, "checking")
    found = checked(taking.url, answer["id"])
    assert (found["state"], found["rows"]) == ("accepted", package.rows), found
    assert (tmp_path / "datasets" / f"{package.id}.tar").read_bytes() == package.file.read_bytes()
    assert send(package, taking.url, None)["state"] == "accepted"  # the same once more
    assert [one["id"] for one in httpx.get(f"{taking.url}/v1/datasets").json()["datasets"]] == [package.id]
    assert sorted(path.suffix for path in (tmp_path / "datasets").iterdir()) == [".json", ".tar"]


def test_a_contribution_is_checked_where_no_memory_may_become_executable(package, tmp_path):
    """MemoryDenyWriteExecute= of the systemd unit: a compiler such as numba can't run there."""
    program = "from osml_serving.datasets.worker import main; main()"
    command = [sys.executable, "-c", f"{no_executable_memory.PRELUDE}\n{program}", str(package.file), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, check=False)
    if no_executable_memory.UNKNOWN.encode() in done.stderr:
        pytest.skip(no_executable_memory.UNKNOWN)
    assert json.loads(done.stdout)["accepted"], done.stderr


def test_a_server_that_is_called_like_a_word_of_a_contribution_takes_it(package, tmp_path, monkeypatch):
    monkeypatch.setattr("platform.node", lambda: "somebody")  # the contributor
    found = worker.check(package.file, tmp_path)
    assert found["accepted"], found["findings"]


def test_a_wrong_contribution_is_refused_with_the_findings_of_validate(taking, package, tmp_path):
    content = package.file.read_bytes()
    place = content.index(b"PAR1") + 3000
    spoilt = content[:place] + bytes(64) + content[place + 64 :]
    answer = httpx.post(f"{taking.url}/v1/datasets", content=spoilt, headers=TAR)
    assert answer.status_code == 202
    found = checked(taking.url, answer.json()["id"])
    assert found["state"] == "refused"
    assert "differs from checksums.sha256" in found["findings"][0]["message"]
    assert str(tmp_path) not in found["findings"][0]["message"]
    assert not list((tmp_path / "datasets").glob("*.tar"))


@pytest.mark.parametrize("content", [b"", b"no tar", b"\x00" * 20_000, tar(("dataset.json", b"{"))])
def test_what_is_no_package_is_refused(taking, content):
    answer = httpx.post(f"{taking.url}/v1/datasets", content=content, headers=TAR)
    found = checked(taking.url, answer.json()["id"])
    assert found["state"] == "refused", found
    assert found["findings"]


def _link(kind: bytes):
    def change(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.type, info.linkname, info.size = kind, "/etc/passwd", 0
        return info

    return change


HOSTILE = {
    "parent": tar(("../x", b"")),
    "absolute": tar(("/etc/cron.d/x", b"")),
    "hidden": tar(("traces/a/b/.x.parquet", b"")),
    "script": tar(("traces/a/b/x.py", b"import os")),
    "pickle": tar(("model.pkl", b"cos\nsystem\n")),
    "deep": tar(("traces/a/b/c/x.parquet", b"")),
    "link": tar(("dataset.json", b""), change=_link(tarfile.SYMTYPE)),
    "hard link": tar(("dataset.json", b""), change=_link(tarfile.LNKTYPE)),
    "device": tar(("dataset.json", b""), change=_link(tarfile.CHRTYPE)),
    "twice": tar(("dataset.json", b"{}"), ("dataset.json", b"{}")),
    "nothing": tar(),
    "no description": tar(("README.md", b"hello")),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_archives_write_nothing_outside(tmp_path, name):
    package = tmp_path / "x.tar"
    package.write_bytes(HOSTILE[name])
    home = tmp_path / "home"
    home.mkdir()
    with pytest.raises(InputError):
        unpack(package, home)
    assert {path for path in tmp_path.rglob("*") if home not in path.parents} == {package, home}


def test_a_sparse_file_can_not_fill_the_disk(tmp_path):
    """A kilobyte that says that it is a terabyte."""
    big = tmp_path / "big"
    with big.open("wb") as file:
        file.truncate(2**30)
    package = tmp_path / "x.tar"
    info = tarfile.TarInfo("dataset.json")
    info.type, info.size = tarfile.GNUTYPE_SPARSE, 0
    header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    header[386:398], header[398:410] = b"00000000000\0", b"00000000000\0"
    header[483:495] = b"77777777777\0"  # its size when unpacked
    header[148:156] = b"%06o\0 " % sum([*header[:148], *(32,) * 8, *header[156:512]])
    package.write_bytes(bytes(header) + bytes(1024))
    home = tmp_path / "home"
    home.mkdir()
    with pytest.raises(InputError):
        unpack(package, home)
    assert not list(home.iterdir())


def test_what_arrives_damaged_too_long_or_as_something_else_is_not_kept(start_process, tmp_path):
    process = start_process("--datasets", str(tmp_path / "d"), "--max-dataset-mib", "1")
    url = f"{process.url}/v1/datasets"
    for content, headers, status, code in (
        (b"x" * 100, TAR | {"x-content-sha256": "0" * 64}, 422, "invalid_dataset"),
        (b"x" * (2**20 + 1), TAR, 413, "too_large"),
        (iter([b"x" * 2**19] * 3), TAR, 413, "too_large"),
        (b"{}", {"content-type": "application/json"}, 415, "unsupported_media_type"),
    ):
        answer = httpx.post(url, content=content, headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), answer.text
    assert list((tmp_path / "d").iterdir()) == []
    assert httpx.get(f"{url}/{'0' * 64}").status_code == 404
    assert httpx.get(f"{url}/x").status_code == 422


def test_a_generated_client_may_call_a_package_plain_bytes(serve, tmp_path):
    plain = {"content-type": "application/octet-stream"}
    taking = serve(datasets=str(tmp_path / "d")).client
    assert taking.post("/v1/datasets", content=b"x", headers=plain).status_code == 202
    refused = taking.post("/v1/datasets", content=b"x", headers={"content-type": "text/plain"})
    assert refused.status_code == 415
    assert "expected application/x-tar or application/octet-stream" in refused.json()["error"]["message"]


def test_an_upload_that_stops_half_way_leaves_nothing(taking, tmp_path):
    def half():
        yield b"x" * 1000
        raise ConnectionError

    with pytest.raises((ConnectionError, httpx.TransportError)):
        httpx.post(f"{taking.url}/v1/datasets", content=half(), headers=TAR)
    deadline = time.monotonic() + 10
    while list((tmp_path / "datasets").iterdir()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert httpx.get(f"{taking.url}/healthz").status_code == 200


def test_a_byte_now_and_then_is_cut_off(serve, tmp_path, monkeypatch):
    """Each piece comes in time, and all of them together never would."""
    monkeypatch.setattr(datasets, "GRACE_S", 0.5)
    monkeypatch.setattr(datasets, "CHUNK_TIMEOUT_S", 0.4)
    server = serve(datasets=tmp_path / "d")

    async def upload(pause_s: float, pieces: int) -> tuple[float, list[dict]]:
        sent: list[dict] = []
        left = pieces

        async def receive() -> dict:
            nonlocal left
            left -= 1
            await asyncio.sleep(pause_s)
            return {"type": "http.request", "body": b"x", "more_body": left > 0}

        async def send(message: dict) -> None:
            sent.append(message)

        headers = [(b"content-type", b"application/x-tar")]
        scope = {
            "type": "http", "method": "POST", "path": "/v1/datasets", "headers": headers, "query_string": b"",
            "root_path": "", "http_version": "1.1", "scheme": "http", "server": ("s", 80), "client": ("c", 1),
        }  # fmt: skip
        began = time.monotonic()
        await server.client.app(scope, receive, send)
        return time.monotonic() - began, sent

    lasted_s, sent = asyncio.run(upload(0.1, 10_000))
    assert (sent[0]["status"], b"too slow" in sent[1]["body"]) == (408, True)
    assert lasted_s < 100, "the pieces would take 1,000 s"
    assert list((tmp_path / "d").iterdir()) == []
    assert asyncio.run(upload(10, 1))[1][0]["status"] == 408  # one that stops


def test_a_large_package_has_the_time_that_it_needs():
    assert datasets.allowance_s(0) == 60
    assert datasets.allowance_s(512 * 2**20) == pytest.approx(60 + 4096)


@pytest.mark.parametrize("member", ["_write", "_sync"])
def test_a_disk_that_is_full_is_one_sentence_and_leaves_nothing(serve, tmp_path, monkeypatch, member):
    server = serve(datasets=tmp_path / "d")
    owner = dataset_shelf.DatasetShelf if member == "_write" else datasets.os

    def full(*_arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(owner, "_write" if member == "_write" else "fsync", full)
    answer = server.client.post("/v1/datasets", content=b"x", headers=TAR)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "store_unavailable"), answer.text
    assert "No space left" in answer.json()["error"]["message"]
    assert list((tmp_path / "d").iterdir()) == []
    shutil.rmtree(tmp_path / "d")
    gone = server.client.post("/v1/datasets", content=b"x", headers=TAR)
    assert (gone.status_code, gone.json()["error"]["code"]) == (503, "store_unavailable"), gone.text


def test_who_checks_strangers_files_knows_no_secrets(tmp_path, monkeypatch):
    monkeypatch.setenv("OSML_STORE", "postgresql://osml:s3cret@db/osml")
    monkeypatch.setenv("PGPASSWORD", "s3cret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    given: dict[str, str] = {}
    real = asyncio.create_subprocess_exec

    async def look(*command, **options):
        given.update(options["env"])
        return await real(*command, **options)

    monkeypatch.setattr(dataset_shelf.asyncio, "create_subprocess_exec", look)

    async def hand_in() -> str:
        shelf = dataset_shelf.DatasetShelf(tmp_path, Log("text", "error"))
        (tmp_path / ".incoming-x").write_bytes(b"x")
        await shelf.take(tmp_path / ".incoming-x", "0" * 64, 1)
        while (found := shelf.find("0" * 64)) is None or found.state == "checking":
            await asyncio.sleep(0.05)
        return found.state

    assert asyncio.run(asyncio.wait_for(hand_in(), 60)) == "refused"  # it ran, and found no package
    assert given["LC_ALL"] == "C.UTF-8"
    assert not [value for value in given.values() if "s3cret" in value]


def test_the_event_loop_goes_on_while_a_package_is_removed(tmp_path, monkeypatch):
    real, threads = shutil.rmtree, []

    def remove(*arguments, **options):
        threads.append(threading.current_thread())
        real(*arguments, **options)

    monkeypatch.setattr(dataset_shelf.shutil, "rmtree", remove)
    (tmp_path / ".unpacked-left").mkdir(parents=True)

    async def hand_in() -> None:
        shelf = dataset_shelf.DatasetShelf(tmp_path, Log("text", "error"))
        await shelf.start()
        (tmp_path / ".incoming-x").write_bytes(b"x")
        await shelf.take(tmp_path / ".incoming-x", "0" * 64, 1)
        while (found := shelf.find("0" * 64)) is None or found.state == "checking":
            await asyncio.sleep(0.05)

    asyncio.run(asyncio.wait_for(hand_in(), 60))
    assert len(threads) == 2
    assert threading.main_thread() not in threads
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json"]


def test_a_refused_package_stays_until_its_record_is_written(tmp_path, monkeypatch):
    """The disk is full for a moment. Without the package, the next check would find that it is missing."""
    (tmp_path / ".incoming-x").write_bytes(b"x")
    identity, real = "0" * 64, dataset_shelf.DatasetShelf._write
    full = [True]

    async def check(_shelf, package: Path) -> dict:
        finding = "of the package" if package.exists() else "the package is missing"
        return {"accepted": False, "rows": None, "runs": None, "findings": [{"severity": "error", "message": finding}]}

    def write(shelf, record) -> None:
        if record.state == "refused" and full.pop():
            raise OSError(28, "No space left on device")
        real(shelf, record)

    monkeypatch.setattr(dataset_shelf.DatasetShelf, "_check_in_scratch", check)
    monkeypatch.setattr(dataset_shelf.DatasetShelf, "_write", write)

    async def hand_in() -> list[str]:
        shelf = dataset_shelf.DatasetShelf(tmp_path, Log("text", "error"))
        await shelf.take(tmp_path / ".incoming-x", identity, 1)
        while full:
            await asyncio.sleep(0.01)
        full.append(False)
        await shelf.stop()
        again = dataset_shelf.DatasetShelf(tmp_path, Log("text", "error"))
        await again.start()
        while (found := again.find(identity)) is None or found.state == "checking":
            await asyncio.sleep(0.01)
        await again.stop()
        return [one["message"] for one in found.findings]

    assert asyncio.run(asyncio.wait_for(hand_in(), 20)) == ["of the package"]
    assert not list(tmp_path.glob("*.tar"))


def test_a_refused_package_that_a_stop_left_is_removed(tmp_path):
    shelf = dataset_shelf.DatasetShelf(tmp_path, Log("text", "error"))
    for letter, state in (("a", "refused"), ("b", "failed"), ("c", "accepted"), ("d", "checking")):
        (tmp_path / f"{letter * 64}.tar").write_bytes(b"x")
        shelf._write(dataset_shelf.DatasetRecord(letter * 64, state, 1, time.time()))
    shelf._tidy()
    assert {package.name[0] for package in tmp_path.glob("*.tar")} == {"c", "d"}


def test_a_package_is_kept_outside_the_event_loop_and_once_though_it_comes_twice(tmp_path, monkeypatch):
    real, threads, begun = dataset_shelf.DatasetShelf.records, [], []

    def records(shelf):
        threads.append(threading.current_thread())
        return real(shelf)

    monkeypatch.setattr(dataset_shelf.DatasetShelf, "records", records)
    monkeypatch.setattr(dataset_shelf.DatasetShelf, "_begin", lambda _shelf, record: begun.append(record.id))

    async def hand_in() -> None:
        shelf = dataset_shelf.DatasetShelf(tmp_path, Log("text", "error"))
        files = [tmp_path / f".incoming-{number}" for number in range(2)]
        for file in files:
            file.write_bytes(b"x")
        await asyncio.gather(*(shelf.take(file, "0" * 64, 1) for file in files))

    asyncio.run(hand_in())
    assert begun == ["0" * 64]
    assert len(threads) == 1
    assert threading.main_thread() not in threads
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".tar"]


def test_a_refused_package_that_comes_again_is_checked_by_another_version_only(tmp_path, monkeypatch):
    """The older version may have refused it by mistake."""

    async def check(_shelf, _package) -> dict:
        return {"accepted": False, "rows": 0, "runs": 0, "findings": []}

    monkeypatch.setattr(dataset_shelf.DatasetShelf, "_check_in_scratch", check)

    async def hand_in() -> list[str]:
        shelf = dataset_shelf.DatasetShelf(tmp_path, Log("text", "error"))
        states = []
        for version in ("1", "1", "2"):
            monkeypatch.setattr(dataset_shelf, "__version__", version)
            (tmp_path / ".incoming-x").write_bytes(b"x")
            states.append((await shelf.take(tmp_path / ".incoming-x", "0" * 64, 1)).state)
            while (found := shelf.find("0" * 64)) is None or found.state == "checking":
                await asyncio.sleep(0.01)
            states.append(f"{found.state} by {found.checked_by}")
        await shelf.stop()
        return states

    expected = ["checking", "refused by 1", "refused", "refused by 1", "checking", "refused by 2"]
    assert asyncio.run(asyncio.wait_for(hand_in(), 20)) == expected


def test_a_package_whose_record_is_damaged_is_checked_again(start_process, tmp_path, package):
    folder = tmp_path / "d"
    folder.mkdir()
    shutil.copy(package.file, folder / f"{package.id}.tar")
    (folder / f"{package.id}.json").write_bytes(b'{"id":')
    process = start_process("--datasets", str(folder))
    assert checked(process.url, package.id)["state"] == "accepted"


def test_only_a_token_for_all_nodes_may_contribute(start_process, tmp_path):
    tokens = tmp_path / "tokens"
    lines = [f"{node}:{hashlib.sha256(word).hexdigest()}\n" for node, word in (("node-17", b"one"), ("*", b"all"))]
    tokens.write_text("".join(lines))
    tokens.chmod(0o600)
    process = start_process("--datasets", str(tmp_path / "d"), "--token-file", str(tokens))
    url = f"{process.url}/v1/datasets"
    assert httpx.post(url, content=b"x", headers=TAR).status_code == 401
    assert httpx.post(url, content=b"x", headers={**TAR, "authorization": "Bearer one"}).status_code == 403
    assert httpx.post(url, content=b"x", headers={**TAR, "authorization": "Bearer all"}).status_code == 202


def test_a_server_without_a_folder_says_so(server):
    for answer in (server.client.get("/v1/datasets"), server.client.post("/v1/datasets", content=b"x", headers=TAR)):
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")


def test_a_check_that_a_stop_cut_off_is_done_after_the_next_start(start_process, tmp_path, package):
    folder = tmp_path / "d"
    first = start_process("--datasets", str(folder))
    send(package, first.url, None)
    first.process.kill()
    first.process.wait()
    assert '"checking"' in Path(folder / f"{package.id}.json").read_text()
    second = start_process("--datasets", str(folder))
    assert checked(second.url, package.id)["state"] == "accepted"


def test_a_check_that_can_not_be_made_does_not_hang_for_ever(tmp_path, monkeypatch):
    """A full disk: the record says `failed`, and the same package may come again."""

    def full(**_options):
        raise OSError(28, "No space left on device")

    async def hand_in() -> tuple[str, str, str]:
        shelf = dataset_shelf.DatasetShelf(tmp_path, Log("text", "error"))
        identity = "0" * 64
        (tmp_path / ".incoming-x").write_bytes(b"x")
        monkeypatch.setattr(dataset_shelf.tempfile, "mkdtemp", full)
        await shelf.take(tmp_path / ".incoming-x", identity, 1)
        while (found := shelf.find(identity)) is None or found.state == "checking":
            await asyncio.sleep(0.01)
        (tmp_path / ".incoming-x").write_bytes(b"x")
        again = await shelf.take(tmp_path / ".incoming-x", identity, 1)
        await shelf.stop()
        return found.state, found.findings[0]["message"], again.state

    state, message, again = asyncio.run(asyncio.wait_for(hand_in(), 10))
    assert (state, again) == ("failed", "checking")
    assert "No space left" in message


def test_a_record_keeps_the_first_findings_and_the_number_of_all(package, tmp_path, monkeypatch):
    """A thousand records of refused packages are kept, and all are read at each new package."""
    place = Place("traces/x.parquet")
    report = Report()
    report.add([place.warning("ways", f"odd {k}") for k in range(500)] + [place.error("cores", "x" * 9999)] * 500)
    monkeypatch.setattr("osml.datasets.validate.validate", lambda _folder, **_options: report)
    found = worker.check(package.file, tmp_path)
    assert (found["accepted"], found["counts"]) == (False, {"warning": 500, "error": 500})
    assert [finding.severity for finding in found["findings"]] == ["error"] * 100
    assert len(msgspec.json.encode(found)) < 100_000


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_check_that_writes_without_end_is_ended(tmp_path, monkeypatch, stream):
    real = asyncio.create_subprocess_exec

    async def endless(*_command, **options):
        return await real(sys.executable, "-c", f"import sys\nwhile True: sys.{stream}.write('a' * 65536)", **options)

    monkeypatch.setattr(dataset_shelf.asyncio, "create_subprocess_exec", endless)
    monkeypatch.setattr(dataset_shelf, "MAX_OUTPUT", 2**20)
    assert asyncio.run(dataset_shelf._run_worker(tmp_path, tmp_path)) == "the check wrote more than 1 MiB"


def test_records_of_refused_packages_do_not_stay_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(dataset_shelf, "MAX_KEPT", 2)
    now_s = time.time()
    shelf = dataset_shelf.DatasetShelf(tmp_path, Log("json", "error"))
    ages_s = {"a": ("accepted", 10**9), "b": ("refused", 10**9), "c": ("failed", 1), "d": ("refused", 2)}
    ages_s |= {"e": ("refused", 3), "f": ("checking", 10**9)}
    for letter, (state, age_s) in ages_s.items():
        shelf._write(dataset_shelf.DatasetRecord(letter * 64, state, 1, now_s - age_s))
    shelf._tidy()
    assert {record.id[0] for record in shelf.records()} == {"a", "c", "d", "f"}


def test_an_accepted_contribution_is_listed_with_content_and_fetched(taking, package, tmp_path):
    identity = send(package, taking.url, None)["id"]
    checked(taking.url, identity)
    listed = Source(taking.url, None).datasets()
    assert [one.id for one in listed] == [identity]
    content = listed[0].content
    assert content is not None
    assert (content.name, content.kind, content.services) == ("a-set", "virtual", ["moses", "xapian"])
    assert content.outcomes
    fetched = Source(taking.url, None).fetch(identity[:8], tmp_path / "fetched")
    assert fetched.rows == package.rows
    assert validate(tmp_path / "fetched").accepted
    assert not list(tmp_path.glob(".fetching-*"))
    assert Source(taking.url, None).fetch("a-set", tmp_path / "by-name").id == identity
    with pytest.raises(InputError, match="exists, expected the name of a new folder"):
        Source(taking.url, None).fetch(identity[:8], tmp_path / "fetched")
    with pytest.raises(InputError, match="0 data sets have the name 'ffff0000' or an id that begins so"):
        Source(taking.url, None).fetch("ffff0000", tmp_path / "other")


def test_a_contributor_waits_for_the_check(taking, package):
    identity = send(package, taking.url, None)["id"]
    assert wait_for_check(taking.url, identity, None, 60)["state"] == "accepted"
    refused = httpx.post(f"{taking.url}/v1/datasets", content=tar(("dataset.json", b"{}")), headers=TAR).json()["id"]
    with pytest.raises(Failure, match=rf"did not accept data set {refused[:12]} \(refused\): \w+"):
        wait_for_check(taking.url, refused, None, 60)


def test_a_package_that_was_not_accepted_is_not_handed_out(taking):
    body = tar(("dataset.json", b"{}"))
    identity = httpx.post(f"{taking.url}/v1/datasets", content=body, headers=TAR).json()["id"]
    assert checked(taking.url, identity)["state"] == "refused"
    assert checked(taking.url, identity)["content"] is None
    answer = httpx.get(f"{taking.url}/v1/datasets/{identity}/package")
    assert answer.status_code == 404
    assert "no accepted data set" in answer.json()["error"]["message"]
    assert Source(taking.url, None).datasets() == []
