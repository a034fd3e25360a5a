import msgspec
import pytest
from osml_serving.example import EXAMPLE

from osml.decide.legality import decision_error
from osml.domain import Assignment, Decision, Partition, Region

NAMES = ["moses", "xapian", "stream"]
GOOD = Decision(
    node="node-17",
    seq=0,
    policy="even",
    partition=Partition(regions=[Region(owners=[name], cores=12, ways=6) for name in NAMES]),
    assignments=[
        Assignment(service=name, cpus=cpus, way_mask=mask)
        for name, cpus, mask in zip(NAMES, ["0-11", "12-23", "24-35"], ["3f", "fc0", "3f000"], strict=True)
    ],
)


def with_assignment(**fields):
    first = msgspec.structs.replace(GOOD.assignments[0], **fields)
    return msgspec.structs.replace(GOOD, assignments=[first, *GOOD.assignments[1:]])


def test_a_legal_decision_passes():
    assert decision_error(EXAMPLE, GOOD) is None


@pytest.mark.parametrize(
    ("decision", "words"),
    [
        (None, "returned a NoneType"),
        (msgspec.structs.replace(GOOD, seq=3), "is for node node-17, seq 3; expected node node-17, seq 0"),
        (msgspec.structs.replace(GOOD, node="other"), "is for node other, seq 0"),
        (msgspec.structs.replace(GOOD, assignments=GOOD.assignments[1:]), "expected one for each"),
        (msgspec.structs.replace(GOOD, assignments=[*GOOD.assignments, GOOD.assignments[0]]), "expected one for each"),
        (with_assignment(cpus="0-36"), "has CPU 36, expected CPUs of 0-35"),
        (with_assignment(cpus=""), "empty CPU list"),
        (with_assignment(cpus="a"), "neither an id nor a range"),
        (with_assignment(way_mask="0"), "way mask 0, expected 1 to 20 ways"),
        (with_assignment(way_mask="100001"), "way mask 100001, expected 1 to 20 ways"),
        (with_assignment(way_mask="5"), "way mask 5, expected adjacent ways"),
    ],
)
def test_an_illegal_decision_is_named_for_what_it_is(decision, words):
    assert words in decision_error(EXAMPLE, decision)


def test_holes_are_legal_where_the_platform_has_sparse_masks():
    sparse = msgspec.structs.replace(EXAMPLE, platform=msgspec.structs.replace(EXAMPLE.platform, sparse_masks=True))
    assert decision_error(sparse, with_assignment(way_mask="5")) is None
