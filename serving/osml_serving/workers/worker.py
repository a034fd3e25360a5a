"""`python -m osml_serving.workers.worker NUMBER COUNT FOLDER`: one worker; its settings are in the environment."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

from osml.base.failure import Failure
from osml_serving.addresses.place import Place
from osml_serving.settings import load_settings
from osml_serving.start import start


def _stop_with_parent() -> None:
    """A worker without its parent drains and ends, as with SIGTERM."""
    while os.read(0, 1):  # not sys.stdin, whose lock would be held at exit
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    """Serve until told to stop."""
    place = Place(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
    threading.Thread(target=_stop_with_parent, name="parent", daemon=True).start()
    try:
        start(load_settings({}), place)
    except Failure as failure:
        sys.stderr.write(f"{failure}\n")
        sys.exit(failure.exit_code)


if __name__ == "__main__":
    main()
