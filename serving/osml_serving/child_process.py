"""The environment of the server's own processes."""

from __future__ import annotations

import os

VARIABLES = frozenset(
    {
        "PATH",
        "HOME",
        "LANG",
        "LANGUAGE",
        "TZ",
        "TMPDIR",
        "VIRTUAL_ENV",
        "PYTHONPATH",
        "PYTHONHOME",
        "LD_LIBRARY_PATH",
        "XDG_CACHE_HOME",
        "CACHE_DIRECTORY",
    }
)


ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
"""For libraries that would take all CPUs of the server. OpenBLAS makes its threads when numpy is imported."""


def one_thread_in_libraries() -> None:
    """The same for this process and its workers, where the operator said nothing; before numpy is imported."""
    for name, value in ONE_THREAD.items():
        os.environ.setdefault(name, value)


def environment_without_secrets() -> dict[str, str]:
    """What a child needs to find its libraries: no passwords, no addresses of databases."""
    return {
        name: value for name, value in os.environ.items() if name in VARIABLES or name.startswith(("LC_", "NUMBA_"))
    }
