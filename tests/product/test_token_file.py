"""`--token-file` of commands that ask a server: one token, or one sentence that says what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from osml.base.failure import InputError
from osml.base.token_file import read_token
from osml.cli.main import application


def test_a_token_is_read_without_the_space_around_it(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("osml_abc\n")
    assert read_token(tmp_path / "token") == "osml_abc"
    assert read_token(None) is None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty, expected one token"),
        (b"\n \n", "is empty, expected one token"),
        (b"\x93\xff\x00binary", "is not one word of ASCII characters, expected one token"),
        (b"osml_a\x1b[2J", "is not one word of ASCII characters"),
        (b"osml_a osml_b", "is not one word of ASCII characters"),
        (b"a" * 100_000, "is not one word of ASCII characters"),
    ],
)
def test_a_file_without_one_token_is_refused(content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(content)
    with pytest.raises(InputError, match=words):
        read_token(tmp_path / "token")


@pytest.mark.parametrize("content", [b"\x93\xff", b""])
def test_a_command_says_so_and_shows_no_traceback(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    done = CliRunner().invoke(application(), ["lab", "conformance", "http://127.0.0.1:1", "--token-file", str(file)])
    assert isinstance(done.exception, InputError)
    assert str(file) in str(done.exception)
