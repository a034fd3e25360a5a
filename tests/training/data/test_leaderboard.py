"""The leaderboard of a folder of data sets: what is left out is not learned from, and the same seed gives the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from osml.base.failure import InputError
from osml.datasets.checks.finding import Report
from osml.datasets.contribute import pack

data = pytest.importorskip("osml_training.cli.data.app")
boards = pytest.importorskip("osml_training.evaluate.leaderboard")


def table(rows: int = 400, seed: int = 0) -> boards.Table:
    """Two platforms and three services; the labels are twice the first input, but on service `odd` they are 100."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(1, 10, (rows, 2))
    services = [("plain", "other", "odd")[index % 3] for index in range(rows)]
    y = np.repeat(2 * x[:, :1], len(boards.OUTPUTS["a2"]), 1)
    y[np.array(services) == "odd"] = 100.0
    return boards.Table(x, y, ["p1" if index % 2 else "p2" for index in range(rows)], services)


def by(board: boards.Leaderboard, kind: str, name: str, model: str) -> list[float]:
    return [one.error for one in board.entries if (one.left_out, one.name, one.model) == (kind, name, model)]


def test_a_service_that_is_left_out_is_not_learned_from() -> None:
    found = boards.leaderboard(table(), "a2")
    assert min(by(found, "service", "odd", "nearest_neighbours")) > 70, "its labels are 100, all others are below 21"
    learned = table()
    plain = [index for index, name in enumerate(learned.service) if name != "odd"]
    known = boards.Table(learned.x[plain], learned.y[plain], ["p1"] * len(plain), [learned.service[i] for i in plain])
    easy = boards.leaderboard(known, "a2")
    assert max(by(easy, "service", "plain", "nearest_neighbours")) < 1
    assert min(by(easy, "service", "plain", "median")) > 3
    assert easy.missing == {"platform": "all examples are of platform 'p1', expected two at least"}


def test_variants_and_parts_are_left_out_with_what_they_were_made_of(monkeypatch: pytest.MonkeyPatch) -> None:
    learned: dict[str, set[str]] = {}

    def spy(table: boards.Table, kind: str, name: str, out: np.ndarray, *_: object) -> list[boards.Entry]:
        names = table.platform if kind == "platform" else table.service
        learned[name] = {one for one, left in zip(names, out.tolist(), strict=True) if not left}
        return []

    monkeypatch.setattr(boards, "_left_out", spy)
    found = table(8)
    platforms = ["p1", "p1@8x11", "p1~3", "p1~3@4x5", "p2", "p2@8x11", "p2~1", "p2"]
    services = ["moses", "moses~1", "moses", "silo~2", "silo", "silo~1", "moses~2", "silo"]
    boards.leaderboard(boards.Table(found.x, found.y, platforms, services), "a2")
    assert learned == {
        "p1": {"p2", "p2@8x11", "p2~1"},
        "p2": {"p1", "p1@8x11", "p1~3", "p1~3@4x5"},
        "moses": {"silo", "silo~1", "silo~2"},
        "silo": {"moses", "moses~1", "moses~2"},
    }


def test_the_margin_holds_for_nine_of_ten_errors() -> None:
    for one in boards.leaderboard(table(), "a2").entries:
        assert one.margin >= 0.5 * one.error
    errors = np.arange(1.0, 101.0)
    flat = boards.Table(np.zeros((200, 1)), np.concatenate([np.zeros((100, 5)), errors[:, None].repeat(5, 1)]),
                        ["p"] * 200, ["a"] * 100 + ["b"] * 100)  # fmt: skip
    [entry, *_] = [one for one in boards.leaderboard(flat, "a2").entries if (one.name, one.model) == ("b", "median")]
    assert (entry.error, entry.margin) == (50.5, pytest.approx(np.quantile(errors, 0.9), abs=0.001))


def test_the_same_seed_gives_the_same_numbers() -> None:
    assert boards.leaderboard(table(), "a2", seed=3) == boards.leaderboard(table(), "a2", seed=3)


def test_another_seed_chooses_other_examples(made: Path) -> None:
    one, same, other = (boards.read([made], "a", 300, seed) for seed in (1, 1, 2))
    assert np.array_equal(one.y, same.y)
    assert not np.array_equal(one.y, other.y)


def test_a_folder_of_packages_gets_its_leaderboard(dataset: Path, tmp_path: Path) -> None:
    pack(dataset, tmp_path / "shelf", name="a-set")
    arguments = ["leaderboard", str(tmp_path / "shelf"), "--rows", "2000", "--json"]
    done = CliRunner().invoke(data.app, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found == json.loads((tmp_path / "shelf/leaderboard.json").read_text())
    assert found["services"] == ["moses", "xapian"]
    assert "platform" in found["missing"]
    models = {one["model"] for one in found["entries"]}
    assert models == {"median", "nearest_neighbours", "linear", "boosted_trees"}
    page = (tmp_path / "shelf/leaderboard.md").read_text()
    assert "## One service left out" in page
    assert "| median |" in page


def test_a_package_with_an_error_is_named(
    dataset: Path, tmp_path: Path, rewrite: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = next((dataset / "labels").rglob("*.parquet"))
    rewrite(labels, lambda columns: columns.__setitem__("oaa_cores", [1.0] * len(columns["run"])))
    with monkeypatch.context() as patched:
        patched.setattr("osml.datasets.contribute.validate", lambda *_, **__: Report())
        pack(dataset, tmp_path / "shelf", name="a-set")
    with pytest.raises(InputError, match=r"a-set-.*\.tar' can't be compared: the data set has .* errors.*; remove it"):
        CliRunner().invoke(data.app, ["leaderboard", str(tmp_path / "shelf")], catch_exceptions=False)


@pytest.mark.parametrize(("options", "words"), [((), "has no package"), (("--model", "c"), "--model is 'c'")])
def test_what_cannot_be_compared_is_one_sentence(tmp_path: Path, options: tuple[str, ...], words: str) -> None:
    with pytest.raises(InputError, match=words):
        CliRunner().invoke(data.app, ["leaderboard", str(tmp_path), *options], catch_exceptions=False)
