"""`python -m osml_training.reproduce`: catalog, profiles, data sets, models, figures. `make reproduce` runs it.

Ctrl-C stops it; the next run goes on with the step that was not finished. Models go to out/reproduce/models; with
`--models models` they replace those of the checkout.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

from osml.base.failure import Failure
from osml_training.reproduce.recipe import Scale, read_recipe
from osml_training.reproduce.runner import Progress, due, read_progress, run

FOLDER = Path("out/reproduce")


def _scale(text: str) -> float:
    value = float(text)
    if not 0.0 < value <= 10.0:
        raise argparse.ArgumentTypeError(f"scale is {text}, expected a number above 0 and up to 10")
    return value


def main() -> None:
    """Run what is due, or list it."""
    parser = argparse.ArgumentParser(prog="osml_training.reproduce", description=__doc__)
    parser.add_argument("step", nargs="*", help="only these steps, and only where they are due; default: all")
    parser.add_argument("--scale", type=_scale, default=1.0, help="share of the rows of each data set (default 1)")
    parser.add_argument("--plan", action="store_true", help="only list the steps, with the time that each took")
    parser.add_argument("--data", default=str(FOLDER / "data"), help="folder of the data sets")
    parser.add_argument("--models", default=str(FOLDER / "models"), help="folder of the models")
    parser.add_argument("--ray", metavar="ADDRESS", help="a Ray cluster that collects and trains")
    parser.add_argument("--workers", type=int, default=0, help="processes that collect; default: one per CPU")
    given = parser.parse_args()
    try:
        recipe, progress = read_recipe(), read_progress(FOLDER / "progress.json")
        scale = Scale(given.scale, given.data, given.models, given.ray)
        steps = due(recipe, progress, scale, given.step)
        if given.plan:
            names = {step.name for step in steps}
            for step in recipe.steps:
                print(f"{'due ' if step.name in names else 'done'} {step.name:22} {_time(progress, step.name)}")
            return
        run(recipe, steps, FOLDER / "progress.json", scale, lambda text: print(text, flush=True), given.workers)
    except Failure as failure:
        print(failure, file=sys.stderr)
        sys.exit(failure.exit_code)
    except KeyboardInterrupt:
        sys.exit("stopped; the same command goes on with the step that was not finished")


def _time(progress: Progress, name: str) -> str:
    done = progress.steps.get(name)
    if done is None:
        return "not measured"
    return f"{math.ceil(done.seconds / 6.0) / 10.0:.1f} minutes on {done.cpus} CPUs, {done.ended}"


if __name__ == "__main__":
    main()
