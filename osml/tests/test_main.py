"""The console entry point: one sentence and an exit code, whatever went wrong."""

from __future__ import annotations

import pytest

from osml.cli import main as entry


def test_a_place_that_can_not_be_used_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full() -> None:
        raise OSError(28, "No space left on device", "/mnt/out")

    monkeypatch.setattr(entry, "_plug_in", lambda: None)
    monkeypatch.setattr(entry, "app", full)
    monkeypatch.setattr("sys.argv", ["osml", "policies"])
    with pytest.raises(SystemExit) as ended:
        entry.main()
    assert ended.value.code == 1
    assert capsys.readouterr().err == "osml: '/mnt/out': No space left on device\n"
