"""A real HAProxy, real requests: what taking servers in and out does, what is restored, what survives."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path

import pytest

from osml.base.failure import InputError, MachineError
from osml.dispatch.haproxy.command_socket import HaproxyGoneError, RuntimeSocket
from osml.dispatch.haproxy.controller import Controller
from osml.dispatch.haproxy.estimate import Estimates, Priors
from osml.dispatch.haproxy.farm_view import DispatchDecision
from osml.dispatch.haproxy.interference_signal import Reading
from osml.dispatch.haproxy.journal import Journal, Original, Process
from osml.dispatch.haproxy.proxy import HaproxyBackend
from osml.lab.testbed.haproxy_process import BACKEND, start_haproxy, write_config
from osml.lab.trials.children import Child, Children, free_port, wait_until

pytestmark = pytest.mark.skipif(
    shutil.which("haproxy", path=os.environ.get("PATH", "") + ":/usr/sbin") is None,
    reason="haproxy is not installed: scripts/setup dispatch",
)
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class SlowServer:
    """Answers each request after `delay_s`; counts them."""

    def __init__(self, delay_s: float) -> None:
        self.delay_s, self.served = delay_s, 0
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                while b"\r\n\r\n" in connection.recv(65536):
                    time.sleep(self.delay_s)
                    self.served += 1
                    connection.sendall(ANSWER)
            except OSError:
                return

    def close(self) -> None:
        self._listener.close()


class ManualSignal:
    """Says what the test says."""

    def __init__(self, **interfered: bool) -> None:
        self.now: Reading = interfered

    def read(self, now: float) -> Reading:
        del now
        return self.now

    def stop(self) -> None: ...


class Farm:
    """HAProxy with web1 and web2, two requests at once each."""

    def __init__(self, directory: Path, children: Children) -> None:
        self.directory, self.children = directory, children
        self.servers = [SlowServer(0.1), SlowServer(0.1)]
        self.port = free_port()
        self.socket = directory / "haproxy.sock"
        self.configure()
        self.haproxy = self.start()
        self.errors = 0
        self._requests: list[threading.Thread] = []

    def configure(self, maxconn: int | None = 2, level: str = "admin") -> None:
        ports = {f"web{n + 1}": server.port for n, server in enumerate(self.servers)}
        self.config = write_config(self.directory, self.port, ports, maxconn, level)

    def start(self) -> Child:
        return start_haproxy(self.children, self.config, self.port)

    def backend(self, name: str = BACKEND) -> HaproxyBackend:
        backend = HaproxyBackend(RuntimeSocket(self.socket), name, Journal(self.directory / "journal", name))
        backend.start()
        return backend

    def ask(self, command: str) -> str:
        runtime = RuntimeSocket(self.socket)
        try:
            return runtime.ask(command)
        finally:
            runtime.close()

    def states(self) -> dict[str, tuple[str, int | None]]:
        """Status and maxconn as HAProxy shows them to somebody else."""
        backend = HaproxyBackend(RuntimeSocket(self.socket), BACKEND, Journal(self.directory / "look", BACKEND))
        rows = backend.read()
        return {name: ("out" if row.draining else row.status, row.limit) for name, row in rows.servers.items()}

    def request(self, count: int) -> None:
        for _ in range(count):
            thread = threading.Thread(target=self._get, daemon=True)
            thread.start()
            self._requests.append(thread)
        time.sleep(0.05)

    def answered(self) -> None:
        for thread in self._requests:
            thread.join(20)
        assert not any(thread.is_alive() for thread in self._requests), "a request was forgotten in the queue"
        assert self.errors == 0

    def _get(self) -> None:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request("GET", "/")
            self.errors += connection.getresponse().status != 200
        except OSError:
            self.errors += 1
        finally:
            connection.close()


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[Farm]:
    with Children(tmp_path / "logs") as children:
        built = Farm(tmp_path, children)
        yield built
        for server in built.servers:
            server.close()


UNTOUCHED = {"web1": ("no check", 2), "web2": ("no check", 2)}


def until(controller: Controller, condition: Callable[[], bool], timeout_s: float = 10.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, controller.status
        controller.step()
        time.sleep(0.002)


def control(farm: Farm, signal: ManualSignal, policy: str = "avoid") -> Controller:
    return Controller(farm.backend(), signal, policy, Estimates(Priors()))  # pyright: ignore[reportArgumentType]


def test_a_server_that_is_out_gets_nothing_and_takes_nothing_from_the_queue(farm: Farm) -> None:
    backend = farm.backend()
    farm.servers[0].delay_s = 5.0  # nothing moves the queue before it is looked at
    backend.apply(DispatchDecision({"web1": 2, "web2": 0}))
    farm.request(10)
    wait_until(lambda: backend.read().queued == 8, "the queue", [farm.haproxy], timeout_s=4.0)
    farm.servers[0].delay_s = 0.1
    farm.answered()
    assert (farm.servers[0].served, farm.servers[1].served) == (10, 0)


def test_a_server_that_comes_in_takes_from_the_queue_at_once_and_only_its_slots(farm: Farm) -> None:
    backend = farm.backend()
    farm.servers[0].delay_s = 10.0  # nothing else can move the queue meanwhile
    farm.servers[1].delay_s = 2.0
    backend.apply(DispatchDecision({"web1": 2, "web2": 0}))
    farm.request(8)
    wait_until(lambda: backend.read().queued == 6, "the queue", [farm.haproxy])
    backend.apply(DispatchDecision({"web1": 2, "web2": 1}))
    wait_until(lambda: backend.read().servers["web2"].in_service == 1, "a request in web2", [farm.haproxy])
    assert backend.read().queued == 5
    backend.apply(DispatchDecision({"web1": 2, "web2": 0}))
    wait_until(lambda: farm.servers[1].served == 1, "the end of the request", [farm.haproxy])
    farm.servers[0].delay_s = 0.1
    time.sleep(0.3)
    assert farm.servers[1].served == 1, "out again while it worked: its completion brings no other"
    backend.read()
    backend.restore()
    farm.answered()


def test_everything_is_restored_at_the_end(farm: Farm) -> None:
    with control(farm, ManualSignal(web1=False, web2=True)) as controller:
        until(controller, lambda: farm.states()["web2"][0] == "out")
    assert controller.restored
    assert farm.states() == UNTOUCHED


def test_limits_are_restored_and_waiting_requests_are_served(farm: Farm) -> None:
    with control(farm, ManualSignal(web1=True, web2=True), "non_idling") as controller:
        until(controller, lambda: farm.states() == {"web1": ("no check", 1), "web2": ("out", 2)})
        farm.request(20)
        controller.step()
    farm.answered()
    assert farm.states() == UNTOUCHED


def test_a_stale_signal_brings_the_original_state_back_until_it_is_fresh(farm: Farm) -> None:
    signal = ManualSignal(web1=False, web2=True)
    with control(farm, signal) as controller:
        until(controller, lambda: farm.states()["web2"][0] == "out")
        signal.now = {}
        controller.step()
        assert controller.status.mode == "released"
        assert farm.states() == UNTOUCHED
        signal.now = {"web2": True}
        until(controller, lambda: farm.states()["web2"][0] == "out")


def test_killed_and_restarted_haproxy_is_taken_over_again(farm: Farm) -> None:
    with control(farm, ManualSignal(web1=False, web2=True)) as controller:
        until(controller, lambda: farm.states()["web2"][0] == "out")
        farm.haproxy.kill()
        until(controller, lambda: controller.status.mode == "away")
        farm.haproxy = farm.start()
        until(controller, lambda: farm.states()["web2"][0] == "out")
        assert (controller.status.lost, controller.status.restarts) == (1, 1)
        farm.request(6)
        farm.answered()
    assert farm.states() == UNTOUCHED


def test_haproxy_that_stays_away_ends_without_hanging_and_the_journal_remembers(farm: Farm) -> None:
    with control(farm, ManualSignal(web1=False, web2=True)) as controller:
        until(controller, lambda: farm.states()["web2"][0] == "out")
        farm.haproxy.kill()
    assert not controller.restored
    assert b"web2" in (farm.directory / "journal").read_bytes()


def save_states(farm: Farm) -> None:
    """For the next reload, as `systemctl reload` does with load-server-state-from-file."""
    saved = farm.directory / "states"
    saved.write_text(farm.ask("show servers state"))
    text = farm.config.read_text()
    text = text.replace("global\n", f"global\n  server-state-file {saved}\n")
    text = text.replace("defaults\n", "defaults\n  load-server-state-from-file global\n")
    farm.config.write_text(text)


def reload(farm: Farm, controller: Controller) -> None:
    """The new process begins with the saved states."""
    old = farm.haproxy
    farm.haproxy = farm.children.start(
        "haproxy-new", ["/usr/sbin/haproxy", "-f", str(farm.config), "-db", "-sf", str(old.pid)]
    )
    until(controller, lambda: controller.status.restarts == 1)
    until(controller, lambda: not old.running)
    assert farm.haproxy.running


def test_a_reload_with_saved_states_does_not_make_our_drain_the_original(farm: Farm) -> None:
    with control(farm, ManualSignal(web1=False, web2=True)) as controller:
        until(controller, lambda: farm.states()["web2"][0] == "out")
        save_states(farm)
        reload(farm, controller)
        assert farm.states()["web2"][0] == "out"
    assert farm.states() == UNTOUCHED


def test_a_drain_of_ours_in_an_old_state_file_is_undone_even_without_a_signal(farm: Farm) -> None:
    signal = ManualSignal(web1=False, web2=True)
    with control(farm, signal) as controller:
        until(controller, lambda: farm.states()["web2"][0] == "out")
        save_states(farm)
        signal.now = {}
        controller.step()
        assert farm.states() == UNTOUCHED
        reload(farm, controller)
        until(controller, lambda: farm.states() == UNTOUCHED)


@pytest.mark.parametrize("was_ours", [False, True])
def test_a_reload_leaves_the_operators_drain(farm: Farm, was_ours: bool) -> None:
    signal = ManualSignal(web1=False, web2=was_ours)
    with control(farm, signal) as controller:
        until(controller, lambda: (farm.states()["web2"][0] == "out") == was_ours)
        signal.now = {"web1": False, "web2": False}
        until(controller, lambda: farm.states() == UNTOUCHED)
        controller.step()
        farm.ask(f"set server {BACKEND}/web2 state drain")
        controller.step()
        save_states(farm)
        reload(farm, controller)
        for _ in range(5):
            controller.step()
        assert farm.states()["web2"][0] == "out"
    assert farm.states()["web2"][0] == "out"


def test_old_process_that_still_answers_is_left_for_the_new_one(farm: Farm) -> None:
    """A reload while a long request runs: the old process lives on, the socket's path is the new one's."""
    farm.servers[0].delay_s = 15.0
    with control(farm, ManualSignal(web1=False, web2=False)) as controller:
        until(controller, lambda: controller.status.mode == "controlling")
        farm.request(1)
        new = farm.children.start(
            "haproxy-new", ["/usr/sbin/haproxy", "-f", str(farm.config), "-db", "-sf", str(farm.haproxy.pid)]
        )
        until(controller, lambda: controller.status.restarts == 1)
        assert farm.haproxy.running, "the test is about an old process that lives"
        assert f"Pid: {new.pid}" in farm.ask("show info")
        controller._signal.now = {"web1": True}  # pyright: ignore
        until(controller, lambda: farm.states()["web1"][0] == "out")


def test_what_the_operator_took_out_stays_out(farm: Farm) -> None:
    farm.ask(f"set server {BACKEND}/web2 state drain")
    with control(farm, ManualSignal(web1=True, web2=False)) as controller:
        for _ in range(20):
            controller.step()
        assert "web2" not in controller.status.slots
        assert farm.states()["web1"][0] == "no check", "the last one that may be used"
    assert farm.states()["web2"][0] == "out"


def test_maintenance_in_mid_run_is_respected(farm: Farm) -> None:
    with control(farm, ManualSignal(web1=False, web2=True)) as controller:
        until(controller, lambda: farm.states()["web2"][0] == "out")
        farm.ask(f"set server {BACKEND}/web1 state maint")
        until(controller, lambda: farm.states()["web2"][0] == "no check")
        farm.request(3)
        farm.answered()
    assert farm.states() == {"web1": ("MAINT", 2), "web2": ("no check", 2)}


def test_a_controller_that_was_killed_left_a_journal_that_the_next_one_restores_from(farm: Farm) -> None:
    backend = farm.backend()
    backend.apply(DispatchDecision({"web1": 1, "web2": 0}))
    backend._journal.close()  # pyright: ignore
    assert farm.states() == {"web1": ("no check", 1), "web2": ("out", 2)}
    with control(farm, ManualSignal(web1=False, web2=False)) as controller:
        controller.step()
    assert farm.states() == UNTOUCHED


def killed_with_web2_out(farm: Farm) -> HaproxyBackend:
    backend = farm.backend()
    backend.apply(DispatchDecision({"web1": 1, "web2": 0}))
    return backend


def test_a_server_that_came_since_the_first_change_is_in_the_journal(farm: Farm) -> None:
    backend = killed_with_web2_out(farm)
    farm.servers.append(SlowServer(0.1))
    farm.configure()
    farm.haproxy.kill()
    farm.haproxy = farm.start()
    with contextlib.suppress(HaproxyGoneError):
        backend.read()
    backend.read()
    backend.apply(DispatchDecision({"web1": 2, "web2": 2, "web3": 0}))
    backend._journal.close()  # pyright: ignore[reportPrivateUsage]
    assert farm.states()["web3"] == ("out", 2)
    with control(farm, ManualSignal()) as controller:
        controller.step()
    assert farm.states() == {**UNTOUCHED, "web3": ("no check", 2)}


@pytest.mark.parametrize("killed", [False, True])
def test_a_maxconn_that_was_changed_with_a_restart_is_kept(farm: Farm, killed: bool) -> None:
    backend = killed_with_web2_out(farm)
    farm.haproxy.kill()
    farm.configure(maxconn=7)
    farm.haproxy = farm.start()
    if killed:
        backend._journal.close()  # pyright: ignore[reportPrivateUsage]
        backend = farm.backend()
    else:
        with contextlib.suppress(HaproxyGoneError):
            backend.read()
        backend.read()
        backend.apply(DispatchDecision({"web1": 7, "web2": 0}))
    assert {one.limit for one in backend.observe({}).backends} == {7}
    backend.restore()
    assert farm.states() == {"web1": ("no check", 7), "web2": ("no check", 7)}


def test_a_process_of_the_same_pid_is_another_if_it_began_later() -> None:
    first = Process("1", 1000.0)
    assert not Process("1", 1001.5).is_another(first), "whole seconds"
    assert Process("1", 1060.0).is_another(first)
    assert Process("2", 1000.0).is_another(first)


def test_a_journal_that_was_cut_off_has_the_state_before(tmp_path: Path) -> None:
    path, before = tmp_path / "journal", {"web1": Original(True, 2)}
    journal = Journal(path, "farm")
    path.write_bytes(b'{"backe')
    assert journal.read() is None, "nothing was changed yet"
    journal.write(before, Process("7"))
    whole = path.read_bytes()
    path.write_bytes(whole + b'\n{"backend":"farm","serv')
    left = journal.read()
    assert left is not None
    assert left.servers == before
    path.write_bytes(whole + b'\n{"backend":"farm","serv' + b'\n{"backend":"fa')
    left = journal.read()
    assert left is not None, "also where two writes in a row were cut off"
    assert left.servers == before
    path.write_bytes(whole + b'\n{"backend":"farm","serv')
    journal.write({"web1": Original(False, 3)}, Process("7"))
    left = journal.read()
    assert left is not None
    assert left.servers == {"web1": Original(False, 3)}
    journal.clear()
    assert journal.read() is None
    path.write_bytes(b'{"backend":"farm","serv\n{"backend":"fa')
    assert journal.read() is None, "nothing was changed yet"
    for foreign in (b"not ours", b'{"backend":"fa\nnot ours', whole + b'{"backend":"farm","servers":[]}\n'):
        path.write_bytes(foreign)
        with pytest.raises(InputError, match="is not a state file of osml"):
            journal.read()


def test_a_full_disk_leaves_the_journal_and_the_servers(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = farm.backend()

    def full(number: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(MachineError, match="No space left on device; no server is changed without it"):
        backend.apply(DispatchDecision({"web1": 2, "web2": 0}))
    assert (farm.directory / "journal").read_bytes() == b""
    assert farm.states() == UNTOUCHED


def test_where_nothing_was_changed_a_haproxy_that_is_away_is_no_failure(farm: Farm) -> None:
    with control(farm, ManualSignal()) as controller:
        controller.step()
        farm.haproxy.kill()
        controller.step()
    assert controller.restored


def test_the_next_controller_restores_what_a_killed_one_left_although_it_has_no_signal(farm: Farm) -> None:
    backend = farm.backend()
    backend.apply(DispatchDecision({"web1": 1, "web2": 0}))
    backend._journal.close()  # pyright: ignore
    with control(farm, ManualSignal()) as controller:
        controller.step()
        assert controller.status.mode == "released"
        assert farm.states() == UNTOUCHED


def health(farm: Farm, server: str, state: str) -> None:
    """What a health check would find."""
    assert farm.ask(f"set server {BACKEND}/{server} health {state}").strip() == ""
    wait_until(lambda: (farm.states()[server][0] == "DOWN") == (state == "down"), f"{server} {state}", [farm.haproxy])


def test_a_server_that_was_down_while_we_had_it_out_comes_in_again(farm: Farm) -> None:
    signal = ManualSignal(web1=False, web2=True)
    with control(farm, signal) as controller:
        until(controller, lambda: farm.states()["web2"][0] == "out")
        health(farm, "web2", "down")
        controller.step()
        assert controller.status.states["web2"] == "DOWN"
        health(farm, "web2", "up")
        controller.step()
        assert farm.states()["web2"][0] == "out"
        signal.now = {"web1": False, "web2": False}
        until(controller, lambda: farm.states()["web2"][0] != "out")
    assert farm.states() == UNTOUCHED


@pytest.mark.parametrize("killed", [False, True])
def test_a_server_that_is_down_at_the_end_has_no_drain_when_it_is_up(farm: Farm, killed: bool) -> None:
    backend = farm.backend()
    backend.apply(DispatchDecision({"web1": 2, "web2": 0}))
    health(farm, "web2", "down")
    if killed:
        backend._journal.close()  # pyright: ignore
        backend = farm.backend()
    backend.read()
    backend.restore()
    health(farm, "web2", "up")
    assert farm.states() == UNTOUCHED


def test_an_operators_drain_survives_a_failed_health_check(farm: Farm) -> None:
    with control(farm, ManualSignal(web1=False, web2=False)) as controller:
        controller.step()
        farm.ask(f"set server {BACKEND}/web2 state drain")
        for state in ("down", "up"):
            health(farm, "web2", state)
            controller.step()
        assert "web2" not in controller.status.slots
    assert farm.states()["web2"][0] == "out"


def test_maintenance_ends_our_drain(farm: Farm) -> None:
    with control(farm, ManualSignal(web1=False, web2=True)) as controller:
        until(controller, lambda: farm.states()["web2"][0] == "out")
        farm.ask(f"set server {BACKEND}/web2 state maint")
        controller.step()
        farm.ask(f"set server {BACKEND}/web2 state drain")
        controller.step()
    assert farm.states()["web2"][0] == "out", "this drain is the operator's"


def test_what_waits_for_another_server_does_not_stir_idle_ones(farm: Farm) -> None:
    backend = farm.backend()
    backend.apply(DispatchDecision({"web1": 2, "web2": 2}))
    rows = backend.read()
    web1 = replace(rows.servers["web1"], in_service=2, queued=3)
    backend.rows = replace(rows, queued=3, servers={**rows.servers, "web1": web1})
    assert [backend.apply(DispatchDecision({"web1": 2, "web2": 2})) for _ in range(4)] == [0] * 4
    backend.rows = replace(backend.rows, queued=4)
    assert sum(backend.apply(DispatchDecision({"web1": 2, "web2": 2})) for _ in range(4)) == 2


def test_a_second_controller_is_refused(farm: Farm) -> None:
    first = farm.backend()
    with pytest.raises(MachineError, match="another `osml run dispatch` controls this backend"):
        farm.backend()
    del first


def test_unknown_backend_names_the_known_ones(farm: Farm) -> None:
    with pytest.raises(InputError, match=f"backend 'farn' is unknown to HAProxy, expected one of: {BACKEND}$"):
        farm.backend("farn")


def test_servers_without_a_limit_are_refused(farm: Farm) -> None:
    farm.ask(f"set maxconn server {BACKEND}/web2 0")
    with pytest.raises(InputError, match="farm/web2 has no maxconn"):
        farm.backend()


def test_socket_that_is_missing_dead_or_weak_is_said(farm: Farm) -> None:
    with pytest.raises(InputError, match="does not exist, expected HAProxy's runtime socket"):
        RuntimeSocket(farm.directory / "none").check()
    farm.haproxy.stop()
    with pytest.raises(MachineError, match="no HAProxy answers"):
        RuntimeSocket(farm.socket).check()
    with pytest.raises(HaproxyGoneError):
        RuntimeSocket(farm.socket).ask("show info")
    farm.configure(level="operator")
    farm.start()
    with pytest.raises(MachineError, match="has level 'operator', expected admin"):
        RuntimeSocket(farm.socket).check()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else for a while")
@pytest.mark.parametrize("hidden", [False, True])
def test_a_socket_of_somebody_else_is_said(hidden: bool) -> None:
    with tempfile.TemporaryDirectory() as name, socket.socket(socket.AF_UNIX) as listener:
        directory = Path(name)
        listener.bind(str(directory / "haproxy.sock"))
        (directory / "haproxy.sock").chmod(0o600)
        directory.chmod(0o700 if hidden else 0o755)
        os.seteuid(65534)
        try:
            with pytest.raises(MachineError, match="this user may not open"):
                RuntimeSocket(directory / "haproxy.sock").check()
            with pytest.raises(HaproxyGoneError, match="Permission denied"):  # in mid-run: to be tried again
                RuntimeSocket(directory / "haproxy.sock").ask("show info")
        finally:
            os.seteuid(0)


def test_under_load_with_changing_interference_no_request_is_ever_refused(farm: Farm) -> None:
    """503 is what HAProxy answers when all servers are out."""
    signal = ManualSignal(web1=False, web2=False)
    for server in farm.servers:
        server.delay_s = 0.02
    with control(farm, signal, "threshold") as controller:
        for step in range(40):
            signal.now = {"web1": step % 2 == 0, "web2": step % 3 == 0}
            farm.request(2)
            for _ in range(5):
                controller.step()
                time.sleep(0.002)
        farm.answered()
    assert farm.states() == UNTOUCHED
