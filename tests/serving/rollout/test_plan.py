"""The rollout file: what it says, and what is refused with one sentence."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from osml_serving.decider import Decider
from osml_serving.rollout.choice import choose, is_chosen
from osml_serving.rollout.plan import Canary, Group, Plan, read_plan

from osml.base.failure import InputError
from tests.kit.server import Refused, decide


def policies() -> Decider:
    return Decider(
        decide, ["osml", "parties", "staffing"], Refused, "osml", 0, takes_models=lambda name: name == "osml"
    )


GOOD = """
schema: osml/rollout/v1
groups:
  - {name: edge, nodes: ["edge-*", "pop-?"], policy: osml, shadow: [staffing]}
  - {name: rest, nodes: ["*"]}
canaries:
  - {name: try-parties, group: edge, percent: 10, policy: parties}
  - {name: new-models, percent: 50, models: /srv/models}
"""


def write(folder: Path, text: str) -> Path:
    file = folder / "rollout.yaml"
    file.write_text(text)
    return file


def test_a_node_belongs_to_the_first_group_that_has_it(tmp_path):
    plan = read_plan(write(tmp_path, GOOD), policies())
    assert [group.name for node in ("edge-7", "pop-1", "pop-12", "db") if (group := plan.group_of(node))] == [
        *("edge", "edge", "rest", "rest")
    ]
    assert plan.canaries[1].what == "models of /srv/models"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "policy: parties",
            "policy: partys",
            "canaries 'try-parties'.policy is 'partys', expected one of osml, parties",
        ),
        ("shadow: [staffing]", "shadow: [clite]", "groups 'edge'.shadow is 'clite', expected one of"),
        ("group: edge", "group: egde", "canaries 'try-parties'.group is 'egde', expected one of edge, rest"),
        ("percent: 10", "percent: 110", "Expected `float` <= 100.0"),
        ("percent: 10", "per_cent: 10", "unknown field `per_cent`"),
        ("name: rest", "name: edge", "groups has the name 'edge' twice"),
        (", models: /srv/models", "", "canaries 'new-models' has neither policy nor models"),
        ("models: /srv/models", "models: ''", "Expected `str` of length >= 1"),
        ("models: /srv/models", "models: /m, policy: parties", "policy 'parties' takes no models"),
        ("shadow: [staffing]", "shadow: [staffing, staffing]", "groups 'edge'.shadow has a policy twice"),
        ("name: rest", 'name: "rest\\n"', "Expected `str` matching regex"),
        ("name: rest", "name: 2024-13-45", "month must be in 1..12"),
        ("schema: osml/rollout/v1", "schema: osml/rollout/v9", "Invalid enum value"),
        ("groups:", "groups: [", "while parsing"),
        ("name: rest", "name: !!python/object/apply:os.getcwd []", "could not determine a constructor"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_field(tmp_path, old, new, said):
    file = write(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(InputError) as error:
        read_plan(file, policies())
    assert said in str(error.value)
    assert str(file) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_is_missing_or_huge_is_refused(tmp_path):
    with pytest.raises(InputError, match="can't be read: No such file"):
        read_plan(tmp_path / "none.yaml", policies())
    with pytest.raises(InputError, match="more than 1024 KiB"):
        read_plan(write(tmp_path, "#" * (2**20 + 1)), policies())


NODES = [f"node-{k}" for k in range(4000)]


@given(percent=st.floats(0.5, 100), more=st.floats(0, 50))
def test_a_larger_percentage_keeps_the_nodes_of_a_smaller_one(percent, more):
    small = Canary("c", percent, policy="parties")
    large = Canary("c", min(100.0, percent + more), policy="parties")
    chosen = {node for node in NODES if is_chosen(small, node)}
    assert chosen <= {node for node in NODES if is_chosen(large, node)}
    assert abs(len(chosen) / len(NODES) - percent / 100) < 0.04


def test_two_canaries_choose_apart():
    both = [{n for n in NODES if is_chosen(Canary(name, 50, policy="p"), n)} for name in ("a", "b")]
    assert 0.2 < len(both[0] & both[1]) / len(NODES) < 0.3


def test_a_returned_canary_and_a_node_with_its_own_policy_are_left_alone():
    group = Group("edge", ["edge-*"], policy="osml")
    canary = Canary("try", 100, group="edge", policy="parties")
    plan = Plan("osml/rollout/v1", [group], [canary])
    assert choose(plan, "edge-1", (), names_policy=False).policy == "parties"
    assert choose(plan, "edge-1", (), names_policy=False).arms == (("try", "canary"),)
    assert choose(plan, "edge-1", {"try"}, names_policy=False).policy == "osml"
    assert choose(plan, "edge-1", (), names_policy=True).arms == ()
    assert choose(plan, "core-1", (), names_policy=False).canary is None
