"""The console entry point: one sentence and an exit code, whatever went wrong."""

from __future__ import annotations

import signal
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from typer.testing import CliRunner

from osml.cli import main as entry


def test_a_place_that_can_not_be_used_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full() -> None:
        raise OSError(28, "No space left on device", "/mnt/out")

    monkeypatch.setattr(entry, "application", lambda: full)
    monkeypatch.setattr("sys.argv", ["osml", "policies"])
    with pytest.raises(SystemExit) as ended:
        entry.main()
    assert ended.value.code == 1
    assert capsys.readouterr().err == "osml: '/mnt/out': No space left on device\n"


def test_the_command_and_the_module_begin_at_the_same_place() -> None:
    (command,) = entry_points(group="console_scripts", name="osml")
    assert command.value == "osml.cli.entry:main"


SLOW_TO_LOAD = """
import signal, sys, time

signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs this in the background may have it ignored

class Slow:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "typer":
            print("loading", flush=True)
            time.sleep(60)

sys.meta_path.insert(0, Slow)
from osml.cli.entry import main
main()
"""


def test_ctrl_c_while_the_commands_are_loaded_ends_with_130_and_no_traceback() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW_TO_LOAD], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "loading\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_under_the_output_is_one_sentence_and_exit_code_1() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "osml", "look", "doctor", "--json"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "osml: No space left on device\n")


def test_a_broken_plug_in_is_named_and_all_other_commands_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Broken:
        name = "strange"

        def load(self) -> None:
            raise AttributeError("no such thing")

    monkeypatch.setattr(entry, "other_plug_ins", lambda: [Broken()])
    assert CliRunner().invoke(entry.application(), ["--version"]).exit_code == 0
    assert "command 'strange' can't be loaded: AttributeError: no such thing" in capsys.readouterr().err
