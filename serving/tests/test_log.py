import io
import json
import logging

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
