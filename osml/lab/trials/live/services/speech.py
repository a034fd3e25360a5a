"""Speech recognition with pocketsphinx: short spoken commands, made at set-up by the speaking program flite."""

from __future__ import annotations

import subprocess
from pathlib import Path

from osml.base.failure import MachineError
from osml.lab.trials.live.services.service import Service, python_server
from osml.lab.trials.live.services.talk import ask_http

SENTENCES = ("go left", "stop now", "go forward ten steps", "turn right", "go back two steps", "turn left and stop")


def _prepare(folder: Path) -> None:
    """A WAV file of 16 kHz for each sentence."""
    for number, sentence in enumerate(SENTENCES):
        path = folder / f"{number}.wav"
        if path.exists():
            continue
        draft = path.with_suffix(".new")
        done = subprocess.run(
            ["flite", "-voice", "slt", "-t", sentence, "-o", str(draft)], capture_output=True, text=True, check=False
        )
        if done.returncode != 0 or not draft.exists():
            raise MachineError(f"flite can't say '{sentence}': {done.stderr.strip()[-200:]}")
        draft.rename(path)  # a file that is there is whole


def _fill(port: int) -> None:
    ask_http(port, "/recognise?n=0", b'"text":"go left"')


SERVICE = Service(
    "speech", "flite", "flite", "http", python_server("speech"), _fill, modules=("pocketsphinx",), prepare=_prepare,
    user=None, requests=tuple(f"/recognise?n={number}" for number in range(len(SENTENCES))),
)  # fmt: skip
