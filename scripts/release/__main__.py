"""`make release`: build every part of a release, check each in a clean root, write SBOMs and checksums, tag.

It refuses a tree that is not clean and a version that the changelog lacks. `--rehearse` does the same for the files as
they are now, and can't tag. The parts go to out/release, with `release.json`: what each step found, and its seconds.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

from scripts.release import agent_package, chart, checksums, images, sbom, source, wheels
from scripts.release.clean_root import Buildah, bases_of
from scripts.release.step import NotReleasedError, Report, clean_environment, run

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: list[str] | None = None) -> int:
    """Release; exit code 1 where something stands in the way."""
    parser = argparse.ArgumentParser(prog="make release", description=(__doc__ or "").split("\n\n")[1])
    parser.add_argument("--out", type=Path, default=ROOT / "out/release", help="folder of the parts; it is made anew")
    parser.add_argument("--rehearse", action="store_true", help="take the files as they are, also where not committed")
    parser.add_argument("--tag", action="store_true", help="make the annotated git tag at the end")
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.rehearse and options.tag:
        parser.error("--rehearse releases nothing, so it can't make a tag: leave out one of them")
    report = Report()
    try:
        release(options.root, options.out.resolve(), report, rehearse=options.rehearse, tag=options.tag)
    except NotReleasedError as reason:
        print(f"not released: {reason}", file=sys.stderr)
        return 1
    return 0


def release(root: Path, out: Path, report: Report, *, rehearse: bool, tag: bool) -> None:
    """Make the parts of a release in `out`; raises NotReleasedError where something stands in the way."""
    version = source.version_of(root)
    changes = ""
    if not rehearse:
        changes = source.changes_of(root, version)
        source.refuse_dirty(root)
        source.refuse_taken_tag(root, version)
    commit, epoch_s = source.commit_of(root)
    _begin_folder(root, out)
    with tempfile.TemporaryDirectory(prefix="osml-release-", ignore_cleanup_errors=True) as folder:
        work = Path(folder)
        _parts(root, out, work, report, version, epoch_s)
    document = {
        "version": version, "commit": commit, "rehearsal": rehearse,
        "steps": [{"step": name, "seconds": seconds, "found": found} for name, seconds, found in report.steps],
    }  # fmt: skip
    (out / "release.json").write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    (out / UNFINISHED).unlink()
    print(f"{checksums.write_sums(out)} files in {out}")
    if tag:
        source.tag(root, version, changes, commit)
        print(f"tagged v{version}: `git push origin v{version}` publishes it")


UNFINISHED = ".unfinished-release"
"""In the folder of a release until all its parts are made: a release that failed may be made again."""


def _begin_folder(root: Path, out: Path) -> None:
    """An empty folder; what an earlier release left in it goes. Raises NotReleasedError for a folder of others."""
    if out in (root.resolve(), *root.resolve().parents) or (
        out.exists() and any(out.iterdir()) and not any((out / name).exists() for name in ("release.json", UNFINISHED))
    ):
        raise NotReleasedError(f"--out {out} has files that no release wrote: choose a new folder, or an empty one")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / UNFINISHED).touch()


def _parts(root: Path, out: Path, work: Path, report: Report, version: str, epoch_s: int) -> None:
    tree = work / "source"
    with report.step("source") as step:
        step.found = f"{source.copy_tracked(root, tree)} tracked files of version {version}"
    with report.step("chart") as step:
        _, step.found = chart.build(tree, out)
    constraints = out / f"constraints-{version}.txt"
    with report.step("wheels") as step:
        wheels.write_constraints(tree, constraints)
        made = wheels.build(tree, out, epoch_s)
        step.found = ", ".join(f"{wheel.name} {wheel.stat().st_size / 1e6:.1f} MB" for wheel in made)
    (work / "venvs").mkdir()
    environments = wheels.Environments(work / "venvs", made, constraints)
    wheels.check(environments, report)
    server = environments.make("osml_serving[postgres]")
    with report.step("wheel osml_serving[postgres]") as step:
        step.found = wheels.check_server_of(server, work / "server.log")
    with report.step("SBOM of the Python packages") as step:
        project = tree / "serving/pyproject.toml"
        file = out / f"osml-serving-{version}.cdx.json"
        sbom.write_python(Path(sys.executable).with_name("cyclonedx-py"), server, project, file, epoch_s)
        step.found = f"{len(json.loads(file.read_text('utf-8'))['components'])} packages"
    lab = environments.make("osml[lab]", "osml_serving")
    with report.step("wheel osml[lab]") as step:
        options = ["--policies", "unmanaged,parties", "--seeds", "1", "--out", work / "bench"]
        run([lab / "bin/osml", "lab", "bench", "run", "case-a", *options], cwd=work, env=clean_environment())
        step.found = "two policies ran on case-a"
    (work / "buildah").mkdir()
    with Buildah(work / "buildah", bases_of(tree)) as buildah:
        _containers(buildah, tree, out, work, report, version, server, lab)


def _containers(
    buildah: Buildah, tree: Path, out: Path, work: Path, report: Report, version: str, server: Path, lab: Path
) -> None:
    with report.step("base images") as step:
        step.found = buildah.prepare_bases()
    with report.step("agent package") as step:
        package = agent_package.build(buildah, tree, out)
        step.found = f"{package.name} {package.stat().st_size / 1e6:.1f} MB"
    with report.step("agent package in a clean root") as step:
        found: list[str] = []
        wheels.check_server_of(
            lab, work / "lab.log", lambda url: found.append(agent_package.check(buildah, package, lab, work, url))
        )
        step.found = found[0]
    with report.step("SBOM of the agent") as step, buildah.root(agent_package.BUILT) as root:
        cmake = (tree / "actuator/CMakeLists.txt").read_text("utf-8")
        depends = agent_package.depends_of(package)
        parts = sbom.agent_parts(cmake, depends, lambda name: root.debian("--show", "--showformat=${Version}", name))
        sbom.write_agent(version, parts, out / f"osml-agent-{version}.cdx.json")
        step.found = f"{len(parts)} packages"
    with report.step("image of the agent") as step:
        step.found = images.build_agent(buildah, tree, out, version)
    with report.step("image of the server") as step:
        observation = wheels.example_observation(server)
        step.found = images.build_server(buildah, tree, out, version, work, observation)


if __name__ == "__main__":
    sys.exit(main())
