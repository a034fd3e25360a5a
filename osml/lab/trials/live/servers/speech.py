"""The speech server: the number of a recording in, its words out. Recognition runs anew for each request."""

from __future__ import annotations

import importlib
import wave
from pathlib import Path
from typing import Any

from osml.lab.trials.live.servers.http import Handler, serve

GRAMMAR = """#JSGF V1.0;
grammar commands;
public <command> = <move> [and stop];
<move> = go (left | right | forward [<number> steps] | back [<number> steps]) | turn (left | right) | stop now;
<number> = one | two | three | four | five | six | seven | eight | nine | ten;
"""


def _samples(path: Path) -> bytes:
    with wave.open(str(path)) as recording:
        if recording.getframerate() != 16000 or recording.getnchannels() != 1:
            raise ValueError(f"{path} has {recording.getframerate()} Hz, expected 16000 Hz and one channel")
        return recording.readframes(recording.getnframes())


def make_handler(folder: Path) -> Handler:
    """Load the acoustic model and the recordings."""
    sphinx: Any = importlib.import_module("pocketsphinx")
    grammar = folder / "commands.gram"
    grammar.write_text(GRAMMAR)
    decoder: Any = sphinx.Decoder(lm=None, jsgf=str(grammar), loglevel="FATAL")
    recordings = [_samples(path) for path in sorted(folder.glob("*.wav"))]

    def recognise(number: int) -> dict[str, Any] | None:
        if number >= len(recordings):
            return None
        decoder.start_utt()
        decoder.process_raw(recordings[number], False, True)
        decoder.end_utt()
        hypothesis = decoder.hyp()
        return {"text": "" if hypothesis is None else hypothesis.hypstr}

    return recognise


if __name__ == "__main__":
    serve("/recognise", make_handler)
