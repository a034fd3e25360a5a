"""The list of rules of the osml policy: the first that holds and passes the guard decides; rules can be left out."""

from __future__ import annotations

import random
import re

import pytest
from msgspec.structs import replace

from osml.policies.osml import Osml, rules
from osml.policies.osml.facts import Facts
from osml.policies.osml.memory.state import OsmlState
from osml.policies.osml.node import Cell
from osml.policies.osml.rule import Proposal, Rule
from osml.policies.osml.rules import RULES, chosen
from osml.policies.osml.settings import DEFAULT, Settings
from tests.kit.fake_models import PLATFORM, Run, job, needs, service
from tests.kit.osml_facts import facts

CELLS = {"a": (4, 2), "b": (4, 2)}


def _rule(name: str, cells: dict[str, Cell] | None) -> Rule:
    def propose(_: Facts) -> Proposal | None:
        return None if cells is None else Proposal(cells)

    return Rule(name, propose, "test")


FINE = {"a": Cell(6, 2), "b": Cell(6, 2)}
TOO_MUCH = {"a": Cell(30, 2), "b": Cell(30, 2)}


def test_the_first_rule_that_holds_proposes_something_and_passes_the_guard_decides(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listed = (
        _rule("does-not-hold", None),
        _rule("is-not-legal", TOO_MUCH),
        _rule("decides", FINE),
        _rule("comes-too-late", {"a": Cell(5, 2), "b": Cell(5, 2)}),
    )
    monkeypatch.setattr(rules, "RULES", listed)
    seen = facts(service("a"), service("b"), cells=CELLS)
    assert chosen(seen) == ("decides", Proposal(FINE))
    assert chosen(seen, without=["decides"]).rule == "comes-too-late"
    assert chosen(seen, without=["decides", "comes-too-late"]).rule == "hold"


def test_where_no_rule_has_an_answer_and_holding_is_not_legal_cells_are_squeezed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rules, "RULES", ())
    seen = facts(service("a", max_cores=20), service("b"), service("c"), cells={"a": (18, 10), "b": (18, 10)})
    rule, proposal = chosen(seen)
    assert rule == "squeeze"
    assert min(cell.cores for cell in proposal.cells.values()) >= 1
    assert len(proposal.cells) == 3


def test_who_cannot_be_relieved_is_told_though_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "RULES", ())
    before = facts(service("a", 3.0), service("b"), cells=CELLS)
    state = OsmlState(tracks=before.tracks)
    rule, proposal = chosen(facts(service("a", 3.0), service("b"), cells=CELLS, before=state))
    assert rule == "hold"
    assert proposal.shortage is not None
    assert proposal.shortage.services == ["a"]


def test_names_are_unique_and_every_rule_says_what_it_does() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.propose.__doc__, f"the table of rules shows what {rule.propose.__name__} says"


def test_every_setting_is_described() -> None:
    described = set(re.findall(r"`(\w+)`", Settings.__doc__ or ""))
    assert described == set(Settings.__struct_fields__)


def test_a_setting_of_probe_changes_what_is_decided() -> None:
    def words(settings: Settings) -> list[str]:
        run, found = Run(Osml(needs(rate_10=4.0), settings)), list[str]()
        for _ in range(16):
            run(service("a", 0.4), service("b", 0.4))
            found.append(run.words())
        return found

    assert words(DEFAULT) != words(replace(DEFAULT, close=0.1))


def test_every_rule_that_asks_no_corrector_proposes_something(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over runs with loads, latencies and jobs by chance, without Model-C'."""
    found: set[str] = set()

    def watched(rule: Rule) -> Rule:
        def propose(seen: Facts) -> Proposal | None:
            proposal = rule.propose(seen)
            if proposal is not None:
                found.add(rule.name)
            return proposal

        return rule._replace(propose=propose)

    monkeypatch.setattr(rules, "RULES", tuple(watched(rule) for rule in RULES))
    for seed in range(30):
        rng = random.Random(seed)
        run = Run(Osml(needs(rate_10=3.0, rate_50=9.0, rate_90=18.0)))
        jobs, rates = [job()] if seed % 2 else [], [10.0]
        for part in range(16):
            rates = [rng.choice((10.0, 50.0, 90.0)) for _ in "abc"] if part % 2 == 0 else rates
            levels = (0.3, 0.6) if rng.random() < 0.3 else (0.3, 0.6, 0.95, 1.2, 3.0)
            for _ in range(12):
                ratios = [rng.choice(levels) for _ in "abc"]
                run(*(service(*one) for one in zip("abc", ratios, rates, strict=True)), *jobs)
    assert found == {rule.name for rule in RULES} - {"more-ahead", "less-ahead"}


def test_a_decision_that_changes_the_partition_says_what_changes() -> None:
    for seed in range(20):
        rng = random.Random(seed)
        run = Run(Osml(needs(rate_10=3.0, rate_50=9.0, rate_90=18.0)))
        before = None
        for _ in range(80):
            run(*(service(n, rng.choice((0.3, 0.9, 1.2, 3.0)), rng.choice((10.0, 50.0, 90.0))) for n in "abc"))
            if before is not None and run.decision.partition != before:
                assert any(reason.change for reason in run.decision.reasons), run.words()
            before = run.decision.partition


def test_a_rule_that_is_left_out_never_decides() -> None:
    with_it, without = Run(Osml(needs(rate_10=4.0))), Run(Osml(needs(rate_10=4.0), without=["take-surplus", "probe"]))
    for run in (with_it, without):
        run(service("a"), service("b"), times=20)
    assert with_it.cores()["a"] < 5
    assert without.cores() == {"a": 18, "b": 18}


def test_settings_and_rules_left_out_are_kept_when_models_are_exchanged() -> None:
    policy = Osml(None, Settings(calm=50), without=["probe"]).with_models(lambda _: needs(rate_10=4.0))
    run = Run(policy, PLATFORM)
    run(service("a"), service("b"), times=30)
    assert run.cores() == {"a": 18, "b": 18}
    run(service("a"), service("b"), times=60)
    assert run.cores() == {"a": 4, "b": 4}
