"""A server under load and instrumentation: requests are counted, and the load is slowed down."""

from __future__ import annotations

import shutil

import pytest

from osml.base.failure import Failure
from osml.lab.profile.document import document
from osml.lab.profile.instrument import PLUGIN
from osml.lab.profile.known import small_caches
from osml.lab.profile.server import Asked, run_server
from osml.lab.trials.live.generator import BUILT
from osml.lab.trials.live.services import service_named
from osml.lab.trials.live.services.service import Service
from osml.lab.trials.live.services.talk import talk

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(
        not all(map(shutil.which, ("qemu-x86_64", "memcached"))) or not PLUGIN.is_file() or not BUILT.is_file(),
        reason="needs qemu-user, memcached and `make agent`",
    ),
]
ASKED = Asked(utilisation=0.3, seconds=3.0, warm_s=0.5, look_s=0.4)


def test_service_of_the_lab_is_measured_under_its_own_load() -> None:
    said: list[str] = []
    outcome = run_server(service_named("memcached"), small_caches(hashed=True, sets=1024), ASKED, said.append)
    assert outcome.complete
    assert outcome.load is not None
    assert outcome.requests is not None
    assert outcome.requests > 20
    assert outcome.load.errors == 0
    assert outcome.load.cpu_ms > outcome.load.native_cpu_ms > 0.0
    assert outcome.report["threads"] > 1
    found = document("memcached", "e5-2697v4", small_caches(hashed=True, sets=1024), outcome, ["memcached"])
    # A get or set of 512 bytes: more than an empty loop, less than a thousandth of a second of work.
    assert 1_000 < found["instructions_per_request"] < 100_000
    assert found["mpki"][0] > found["mpki"][-1]
    assert len(said) == 4


def test_server_that_answers_nothing_is_said() -> None:
    given = service_named("memcached")

    def reach(port: int) -> None:
        talk(port, b"version\r\n", 1, b"VERSION")

    # The generator speaks HTTP to a server that does not.
    wrong = Service("wrong", "memcached", "memcached", "http", given.command, reach)
    with pytest.raises(Failure, match=r"wrong answered no request at .*: is the protocol right\?"):
        run_server(wrong, small_caches(hashed=True), ASKED, lambda _: None)
