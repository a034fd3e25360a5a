"""The fuzzing programs list their sources one by one: what one source needs of another has to be listed, too."""

from __future__ import annotations

import re
from pathlib import Path

ACTUATOR = Path(__file__).parents[2] / "actuator"


def test_every_source_that_a_listed_one_needs_is_listed() -> None:
    listed = set(re.findall(r"\$\{OSML_SRC\}/(\S+?)\.cpp", (ACTUATOR / "fuzz/CMakeLists.txt").read_text()))
    assert len(listed) > 20
    needed = {
        header
        for source in listed
        for header in re.findall(r'#include "(\w+/\w+)\.h"', (ACTUATOR / f"src/{source}.cpp").read_text())
        if (ACTUATOR / f"src/{header}.cpp").exists()
    }
    assert needed <= listed, f"not in actuator/fuzz/CMakeLists.txt: {sorted(needed - listed)}"
