"""What a machine is, from its name, from columns and from the command line."""

import pytest

from osml.base.failure import InputError
from osml.simulator.calibration.measured.machines import Machine, Machines, cpus_of


@pytest.mark.parametrize(
    ("name", "cpus", "siblings"),
    [
        ("n2-highcpu-2", 2, True),
        ("e2-standard-8", 8, True),
        ("n2d-highmem-4", 4, True),
        ("t2d-standard-4", 4, False),
        ("t2a-standard-1", 1, False),
        ("c4a-standard-16", 16, False),
        ("m7g.2xlarge", 8, False),
        ("c7a.large", 2, False),
        ("c6i.xlarge", 4, True),
        ("g4dn.xlarge", 4, True),
        ("Standard_D4ps_v5", 4, False),
        ("Standard_D4s_v5", 4, True),
        ("my own box", 2, True),
    ],
)
def test_a_name_tells_cpus_and_siblings(name, cpus, siblings):
    assert Machines().of(name) == Machine(cpus, siblings=siblings)
    assert cpus_of(name) == cpus


def test_the_command_line_counts_more_than_the_file_and_the_file_more_than_the_name():
    machines = Machines.parse(["t2d-standard-4: siblings=yes, tick_ms=4"])
    row = {"siblings": "no", "scheduler": "cfs", "tick_ms": ""}
    assert machines.of("t2d-standard-4", row) == Machine(4, siblings=True, eevdf=False, tick_ms=4.0)
    assert machines.of("n2-highcpu-2", row) == Machine(2, siblings=False, eevdf=False, tick_ms=4.0)


def test_slices_grow_with_the_logarithm_of_the_cpus_up_to_eight():
    assert [Machine(cpus).slice_ms for cpus in (1, 2, 4, 8, 64)] == [0.75, 1.5, 2.25, 3.0, 3.0]
    assert Machine(4).turn_ms == 3.0
    assert Machine(4, tick_ms=4.0).turn_ms == 4.0


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("n2: sibling=no", "unknown key 'sibling', expected one of scheduler, siblings, tick_ms, weight, cpus"),
        ("n2", "expected 'NAME: siblings=no"),
        (": siblings=no", "expected 'NAME: siblings=no"),
        ("n2: siblings", "is not key=value"),
        ("n2: siblings=maybe", "'siblings' is 'maybe', expected yes or no"),
        ("n2: scheduler=bfs", "'scheduler' is 'bfs', expected cfs or eevdf"),
        ("n2: tick_ms=0", "'tick_ms' is '0', expected 0.1 to 100"),
        ("n2: tick_ms=nan", "'tick_ms' is 'nan', expected 0.1 to 100"),
        ("n2: cpus=1.5", "'cpus' is '1.5', expected 1 to 4096"),
    ],
)
def test_a_wrong_machine_is_refused_in_one_sentence(option, sentence):
    with pytest.raises(InputError) as caught:
        Machines.parse([option])
    assert sentence in str(caught.value)


def test_a_wrong_column_is_refused():
    with pytest.raises(InputError, match="'siblings' is 'perhaps'"):
        Machines().of("n2-highcpu-2", {"siblings": "perhaps"})
