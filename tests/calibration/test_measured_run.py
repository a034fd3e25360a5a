"""`validate --measured`: whole folders, the shipped facts, the ledger of looks and the facts on policies."""

import csv
import json

import pytest
from typer.testing import CliRunner

from osml.base.failure import InputError
from osml.simulator.calibration.measured import looks, policy_facts, shipped
from osml.simulator.calibration.measured.machines import Machines
from osml.simulator.calibration.measured.outcome import document
from osml.simulator.calibration.measured.run import measured_tests, shipped_tests
from osml.simulator.catalogs import CatalogError
from osml.simulator.commands import app

CONTRACT = {"name", "unit", "n", "median_error", "p90_error", "within", "share_within", "worst"}


def some_rows(folder, keep):
    """The shipped files, cut down to rows that `keep` wants."""
    for name in shipped.TABLES:
        with (shipped.folder() / name).open(newline="") as file:
            reader = csv.DictReader(file)
            rows = [row for row in reader if keep(name, row)]
        with (folder / name).open("w", newline="") as file:
            writer = csv.DictWriter(file, reader.fieldnames or [])
            writer.writeheader()
            writer.writerows(rows)
    return folder


def few(name, row):
    return {
        "memcached_p95.csv": row.get("vm") == "e2-highcpu-2" and row.get("interference") in ("none", "l1i", "llc"),
        "colocation_intervals.csv": True,
        "batch_slowdown.csv": row.get("program") in ("radix", "vips"),
        "batch_speedup.csv": row.get("program") == "radix",
        "inference_cpu_limit.csv": row.get("model") == "gcn",
        "spec_llc.csv": row.get("program") in ("429.mcf.1", "470.lbm.1"),
        "memory_latency.csv": True,
    }[name]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return some_rows(tmp_path_factory.mktemp("measured"), few)


@pytest.fixture(scope="module")
def whole():
    return {test.name: test for test in shipped_tests(Machines())}


def run(*arguments):
    return CliRunner().invoke(app, ["validate", *map(str, arguments)])


def no_constant(text):
    raise AssertionError(f"{text} is no JSON")


def test_a_few_rows_of_each_file_give_a_document_with_the_keys_of_the_contract(folder):
    found = run("--measured", folder, "--json")
    assert found.exit_code == 0
    shown = json.loads(found.stdout, parse_constant=no_constant)
    assert len(shown["tests"]) > 15
    for test in shown["tests"]:
        assert set(test) >= CONTRACT
        assert test["n"] > 0
        assert 0.0 <= test["share_within"] <= 1.0
        assert {"key", "measured", "ours"} == set(test["worst"][0])
        assert test["simplest"]["name"]
    assert shown["looks"]["spec_llc.csv (check)"] == 4
    assert "skipped: clite_facts.yaml is not in" in found.stderr


def test_the_same_folder_gives_the_same_bytes(folder):
    assert run("--measured", folder, "--json").stdout == run("--measured", folder, "--json").stdout


def test_people_get_a_table(folder, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    shown = run("--measured", folder, "--only", "memcached").stdout
    assert "memcached p95 beside llc" in shown
    assert "simplest" in shown
    assert "SPEC" not in shown


def test_a_machine_of_the_command_line_changes_what_is_told(folder):
    def ours(*more):
        shown = json.loads(run("--measured", folder, "--only", "beside llc", "--json", *more).stdout)
        return {row["key"]: row["ours"] for row in shown["tests"][0]["worst"]}

    hyperthreads, cores = ours(), ours("--machine", "e2-highcpu-2: siblings=no")
    assert all(cores[key] < hyperthreads[key] for key in set(cores) & set(hyperthreads))


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (("--machine", "e2-highcpu-2: sibling=no"), "unknown key 'sibling'"),
        (("--machine", "e3-highcpu-2: siblings=no"), "no file of"),
    ],
)
def test_a_wrong_machine_is_an_input_error(folder, more, sentence):
    found = run("--measured", folder, *more)
    assert isinstance(found.exception, InputError)
    assert sentence in str(found.exception)


def test_a_folder_without_files_names_those_expected(tmp_path):
    with pytest.raises(
        InputError, match=r"none of the files expected is there: memcached_p95\.csv, .*clite_facts\.yaml"
    ):
        measured_tests(tmp_path, Machines())
    with pytest.raises(InputError, match="not a folder"):
        measured_tests(tmp_path / "none", Machines())


def test_a_folder_with_empty_files_has_nothing_to_compare(tmp_path):
    found = run("--measured", some_rows(tmp_path, lambda name, row: False))
    assert isinstance(found.exception, InputError)
    assert "no test has anything to compare" in str(found.exception)


def test_rows_that_lack_what_they_are_told_from_take_it_from_the_shipped_facts(tmp_path, whole):
    def hidden(name, row):
        return {
            "memcached_p95.csv": row.get("interference") == "llc" and row.get("qps_target") == "10000",
            "batch_speedup.csv": row.get("program") == "radix" and row.get("threads") == "8",
            "inference_cpu_limit.csv": row.get("model") == "gcn" and row.get("cpus") == "2",
            "spec_llc.csv": row.get("program") == "429.mcf.1" and row.get("llc_mib") == "7.0",
        }.get(name, False)

    found = {test.name: test for test in measured_tests(some_rows(tmp_path, hidden), Machines())}
    for name in (
        "memcached p95 beside llc",
        "batch: speed-up with more threads than cores",
        "SPEC CPI, size left out: inner sizes",
    ):
        pairs = {pair.key: pair.ours for pair in whole[name].pairs}
        assert found[name].pairs
        for pair in found[name].pairs:
            assert pair.ours == pytest.approx(pairs[pair.key], rel=1e-9)


def test_shipped_facts_are_many_and_name_their_source():
    counts = shipped.counts()
    assert sum(sum(own.values()) for own in counts.values()) >= 500
    assert counts["spec_llc.csv"]["check"] > 300
    for name in shipped.TABLES:
        with (shipped.folder() / name).open(newline="") as file:
            for row in csv.DictReader(file):
                assert row["source"]
                assert row["split"] in ("fit", "check")
    assert "doi" in (shipped.folder() / shipped.CLITE).read_text("utf-8")


def test_the_shipped_facts_meet_the_aims_but_where_the_smallest_size_is_left_out(whole):
    aimed = [document(test) for test in whole.values() if test.aim is not None]
    missed = {found["name"] for found in aimed if found["share_within"] < found["aim"]}
    assert missed == {name for name in whole if "all sizes" in name}


def test_the_ledger_of_looks_counts_each_set():
    ledger = looks.shipped_looks()
    assert looks.counts(ledger)["facts.yaml (held back)"] == 13
    assert all(look.led_to for look in ledger)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[", "expected"),
        ("- {date: 2026-11-24, set: a, rows: b, saw: c}", "missing required field `led_to`"),
        ("- {date: 2026-11-24, set: a, rows: b, saw: c, led_to: d, who: e}", "unknown field `who`"),
        ("- {date: soon, set: a, rows: b, saw: c, led_to: d}", "date"),
        ("- {date: 2026-11-24, set: ' ', rows: b, saw: c, led_to: d}", "entry 1: 'set' is empty"),
    ],
)
def test_a_wrong_ledger_is_refused_in_one_sentence(text, sentence):
    with pytest.raises(CatalogError, match=r"mine\.yaml") as caught:
        looks.parse_looks(text, "mine.yaml")
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_facts_on_policies_have_ids_sources_and_known_units():
    facts = policy_facts.shipped_policy_facts().facts
    assert len(facts) >= 90
    assert {fact.unit for fact in facts} <= set(policy_facts.UNITS)
    assert all(fact.value is not None for fact in facts if fact.sure == "printed")


ONE = "{id: a, source: s, quantity: q, unit: s, value: 1, conditions: {}, sure: printed}"


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        (f"[{ONE}, {ONE}]", "a: two facts have this id"),
        (f"[{ONE.replace('unit: s', 'unit: fortnight')}]", "a: unit 'fortnight' is unknown"),
        (f"[{ONE.replace('sure: printed', 'sure: perhaps')}]", "Invalid enum value 'perhaps'"),
        (f"[{ONE.replace('value: 1', 'value: null')}]", "a: the value is null"),
        (f"[{ONE.replace('conditions: {}', 'conditions: {setup: moon}')}]", "a: setup 'moon' is unknown"),
        (f"[{ONE.replace('id: a', 'id: a, more: b')}]", "unknown field `more`"),
        (f"[{ONE.replace('source: s', 'source: ')}]", "Expected `str`"),
    ],
)
def test_wrong_facts_on_policies_are_refused_in_one_sentence(facts, sentence):
    with pytest.raises(CatalogError, match=r"mine\.yaml") as caught:
        policy_facts.parse_policy_facts(f"{{setups: {{osml: {{}}}}, facts: {facts}}}", "mine.yaml")
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
