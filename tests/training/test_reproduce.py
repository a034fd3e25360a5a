"""The recipe that makes everything anew, and its runner: commands that exist, what is due, stop and go on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from osml_training.reproduce.recipe import Recipe, Scale, Step, commands, read_recipe
from osml_training.reproduce.runner import Progress, due, read_progress, run

from osml.base.failure import Failure, InputError

SCALE = Scale(rows=0.01, data="out/data", models="out/models")
REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "cli.md"


def documented_options() -> dict[str, set[str]]:
    """Options of every command, from the generated reference."""
    found: dict[str, set[str]] = {}
    for section in REFERENCE.read_text("utf-8").split("\n### ")[1:]:
        name = re.match(r"`osml ([^`]*)`", section)
        if name:
            same = re.search(r"Its parameters are those of \[`osml ([^`]*)`\]", section)
            found[name[1]] = found[same[1]] if same else set(re.findall(r"`(--[a-z-]+)", section))
    return found


def test_every_command_of_the_recipe_exists_with_its_options() -> None:
    known = documented_options()
    recipe = read_recipe()
    for step in recipe.steps:
        for line in commands(recipe, step, SCALE):
            if step.module != "osml":
                continue
            words = [word for word in line if not word.startswith("--")]
            name = next(" ".join(words[:n]) for n in (4, 3, 2, 1) if " ".join(words[:n]) in known)
            options = {word for word in line if word.startswith("--")}
            assert options <= known[name] | {"--no-noise"}, (step.name, options - known[name])


def test_rows_follow_the_scale_and_words_are_filled_in() -> None:
    recipe = read_recipe()
    step = next(step for step in recipe.steps if step.name == "data-beside")
    lines = commands(recipe, step, SCALE)
    assert lines[0][lines[0].index("--rows") + 1] == "200000"
    assert "xapian" in lines[0][lines[0].index("--neighbour") + 1]
    assert "{" not in " ".join(word for line in lines for word in line)


def test_a_ray_cluster_is_named_to_steps_that_take_one_but_not_to_labels() -> None:
    recipe = read_recipe()
    step = next(step for step in recipe.steps if step.name == "data-alone")
    lines = commands(recipe, step, Scale(1.0, "d", "m", ray="auto"))
    assert [line[-2:] == ["--ray", "auto"] for line in lines] == [True, True, True, False]


def recipe_of(*steps: Step) -> Recipe:
    return Recipe({}, list(steps))


def noted(path: Path, name: str, text: str, needs: tuple[str, ...] = ()) -> Step:
    """A step that writes a file: `python -m timeit` runs a statement."""
    code = f"open('{path}','a').write('{text}')"
    return Step(name, "writes a file", [f'-n 1 -r 1 "{code}"'], list(needs), module="timeit")


def test_what_is_done_is_not_run_again_and_what_reads_it_is_where_it_was(tmp_path: Path) -> None:
    progress, out = tmp_path / "progress.json", tmp_path / "out"
    recipe = recipe_of(noted(out, "first", "a"), noted(out, "second", "b", ("first",)))
    said: list[str] = []
    run(recipe, due(recipe, Progress(), SCALE), progress, SCALE, said.append)
    assert out.read_text() == "ab"
    assert due(recipe, read_progress(progress), SCALE) == []
    changed = recipe_of(noted(out, "first", "c"), noted(out, "second", "b", ("first",)))
    assert [step.name for step in due(changed, read_progress(progress), SCALE)] == ["first", "second"]
    run(changed, due(changed, read_progress(progress), SCALE, ["first"]), progress, SCALE, said.append)
    later = read_progress(progress)
    if later.steps["first"].ended != later.steps["second"].read["first"]:  # in the same second nothing is older
        assert [step.name for step in due(changed, later, SCALE)] == ["second"]


def test_a_command_that_fails_stops_the_run_and_keeps_what_was_done(tmp_path: Path) -> None:
    progress, out = tmp_path / "progress.json", tmp_path / "out"
    broken = Step("broken", "fails", ['-n 1 -r 1 "1/0"'], ["first"], module="timeit")
    recipe = recipe_of(noted(out, "first", "a"), broken, noted(out, "last", "z"))
    with pytest.raises(Failure, match="step 'broken' failed with exit code 1"):
        run(recipe, due(recipe, Progress(), SCALE), progress, SCALE, lambda _: None)
    assert out.read_text() == "a"
    assert [step.name for step in due(recipe, read_progress(progress), SCALE)] == ["broken", "last"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("steps: 3", "can't be read"),
        ("words: {}\nsteps: [{name: a, does: x, run: [b], needs: [c]}]", "needs 'c', expected steps before it"),
        ("words: {}\nsteps: [{name: a, does: x, run: [b]}, {name: a, does: x, run: [b]}]", "occurs twice"),
        ("words: {}\nsteps: [{name: a, does: x, runs: [b]}]", "can't be read"),
    ],
)
def test_a_bad_recipe_is_refused(tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=fault):
        read_recipe(path)


def test_unknown_words_steps_and_progress_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown word"):
        commands(recipe_of(), Step("a", "x", ["{nothing}"]), SCALE)
    with pytest.raises(InputError, match="step 'b' is unknown, known are a"):
        due(recipe_of(Step("a", "x", ["y"])), Progress(), SCALE, ["b"])
    path = tmp_path / "progress.json"
    path.write_text("{")
    with pytest.raises(InputError, match="remove it to begin anew"):
        read_progress(path)
