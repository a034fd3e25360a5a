import io
import json
import logging
import threading
import time

import pytest
from osml_serving import log_outlet
from osml_serving.log import Bridge, Log


def test_text_lines_are_for_people_and_cannot_drive_a_terminal():
    stream = io.BytesIO()
    Log("text", "info", stream).decision("n", 4, "arq", None, 2, ["moses +1\x1b[2J\n+2"], 0.5)
    (line,) = stream.getvalue().decode().splitlines()
    assert line.endswith(" n #4 arq: E_S -, 2 changes, 0.50 ms; moses +1\\x1b[2J\\x0a+2")


def test_lines_below_the_level_are_left_out():
    stream = io.BytesIO()
    log = Log("json", "warning", stream)
    log.decision("n", 4, "arq", 0.1, 0, [], 0.5)
    log.event("info", "ready", "here")
    log.event("warning", "odd", "there")
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["odd"]


def test_a_log_that_cannot_be_written_is_counted_and_nothing_else():
    class Full(io.BytesIO):
        def write(self, _):
            raise OSError(28, "No space left on device")

    log = Log("json", "info", Full())
    log.event("info", "ready", "here")
    assert log.lost == 1


def test_libraries_log_down_the_same_road():
    stream = io.BytesIO()
    handler = Bridge(Log("json", "info", stream))
    logger = logging.Logger("uvicorn.error")
    logger.addHandler(handler)
    logger.info("chatter")
    logger.warning("Invalid HTTP request received.")
    try:
        raise ValueError("what")
    except ValueError:
        logger.exception("failed")
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert (first["level"], first["event"]) == ("warning", "uvicorn.error")
    assert (second["level"], "ValueError: what" in second["traceback"]) == ("error", True)


@pytest.mark.parametrize("form", ["json", "text"])
def test_no_password_of_an_address_gets_into_the_log(form):
    out = io.BytesIO()
    log = Log(form, "debug", out)
    address = "postgresql://osml:s3cret@db/osml?password=s3cret"
    log.event("error", "store", f"{address} does not answer")
    log.fault("store", address, f"Traceback: {address}")
    assert b"osml:***@db" in out.getvalue()
    assert b"s3cret" not in out.getvalue()


class Stuck:
    """A pipe whose reader has gone to sleep."""

    def __init__(self):
        self.gate = threading.Event()
        self.text = b""

    def write(self, lines):
        self.gate.wait(20)
        self.text += lines
        return len(lines)


def test_a_reader_that_does_not_read_holds_nobody_up(monkeypatch):
    monkeypatch.setattr(log_outlet, "MAX_BYTES", 10_000)
    stuck = Stuck()
    log = Log("text", "debug", stuck)
    log.begin_background()
    began = time.monotonic()
    for number in range(1000):
        log.event("info", "tick", f"number {number}")
    assert time.monotonic() - began < 10
    assert 0 < log.lost < 1000
    stuck.gate.set()
    log.end_background()
    lines = stuck.text.decode().splitlines()
    assert len(lines) + log.lost == 1000
    assert [int(line.rsplit(" ", 1)[1]) for line in lines[:20]] == list(range(20))
    log.event("info", "tick", "at once again")
    assert stuck.text.endswith(b"at once again\n")


def test_who_ends_does_not_wait_for_a_reader_that_does_not_read():
    stuck = Stuck()
    log = Log("text", "debug", stuck)
    log.begin_background()
    log.event("info", "tick", "this holds the writer")
    log.end_background()
    began = time.monotonic()
    log.event("info", "tick", "nobody waits for this")
    assert time.monotonic() - began < 10
    stuck.gate.set()


def test_a_stream_that_takes_a_part_at_a_time_gets_everything_and_one_that_takes_nothing_loses_it():
    class Part(io.BytesIO):
        def write(self, lines):
            return super().write(lines[:7])

    class Full(io.BytesIO):
        def write(self, _):
            return None  # a raw file that would block

    part = Part()
    log = Log("json", "info", part)
    log.event("info", "ready", "here")
    assert json.loads(part.getvalue())["event"] == "ready"
    assert log.lost == 0
    log = Log("json", "info", Full())
    log.event("info", "ready", "here")
    assert log.lost == 1


def test_everything_that_was_said_is_written_before_the_end():
    out = io.BytesIO()
    log = Log("text", "debug", out)
    for round_ in range(3):
        log.begin_background()
        for number in range(200):
            log.event("info", "tick", f"{round_} {number}")
        log.end_background()
    assert len(out.getvalue().splitlines()) == 600
    assert log.lost == 0
