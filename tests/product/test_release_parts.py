"""`make release`: what it refuses, what its lists say, and that its sums are checked by sha256sum."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from scripts.release import checksums, sbom, source
from scripts.release.__main__ import main
from scripts.release.step import NotReleasedError, Report, run

ROOT = Path(__file__).parents[2]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=A", "-c", "user.email=a@b.c"]
    return subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with the files that state a version, and a changelog that knows it."""
    root = tmp_path / "checkout"
    for name in {"pyproject.toml", *(place.file for place in source.STATED)}:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    (root / "CHANGELOG.md").write_text(
        f"# Changelog\n\n## {VERSION} - 2026-11-25\n\n- First.\n\n## 0.0.1 - 2026-01-01\n\n- Old.\n"
    )
    git(root, "init", "--quiet")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message", "One")
    return root


def test_every_place_states_the_version_of_the_project() -> None:
    assert source.version_of(ROOT) == VERSION


@pytest.mark.parametrize("package", ["serving", "training"])
def test_each_package_carries_the_licence(package: str) -> None:
    """As a file of its own: a link would lead out of the source package, and the wheel would have none."""
    project = tomllib.loads((ROOT / package / "pyproject.toml").read_text())["project"]
    assert project["license-files"] == ["LICENSE"]
    assert not (ROOT / package / "LICENSE").is_symlink()
    assert (ROOT / package / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


@pytest.mark.parametrize("place", source.STATED, ids=lambda place: f"{place.file}:{place.expression[:20]}")
def test_a_place_with_another_version_is_named(checkout: Path, place: source.Stated) -> None:
    text = (checkout / place.file).read_text()
    found = re.search(place.expression, text)
    assert found is not None
    (checkout / place.file).write_text(text[: found.start(1)] + "9.9.9" + text[found.end(1) :])
    with pytest.raises(NotReleasedError, match=re.escape(f"{place.file} states version 9.9.9, expected {VERSION}")):
        source.version_of(checkout)


def test_the_changes_of_a_version_end_at_the_next_heading(checkout: Path) -> None:
    assert source.changes_of(checkout, VERSION) == "- First."


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# Changelog\n\n## Unreleased\n\n- First.\n", f"no heading `## {VERSION} - YYYY-MM-DD`"),
        (f"# Changelog\n\n## {VERSION}\n\n- First.\n", f"no heading `## {VERSION} - YYYY-MM-DD`"),
        (f"# Changelog\n\n## {VERSION} - 2026-11-25\n\n## 0.0.1 - 2026-01-01\n- Old.\n", "says nothing below"),
    ],
)
def test_a_version_that_the_changelog_lacks_is_refused(
    checkout: Path, capsys: pytest.CaptureFixture[str], text: str, words: str
) -> None:
    (checkout / "CHANGELOG.md").write_text(text)
    git(checkout, "commit", "--quiet", "--all", "--message", "Two")
    assert main(["--root", str(checkout), "--out", str(checkout / "out")]) == 1
    assert words in capsys.readouterr().err
    assert not (checkout / "out").exists()


@pytest.mark.parametrize("name", ["CITATION.cff", "new.txt"])
def test_a_tree_that_is_not_clean_is_refused(checkout: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    with (checkout / name).open("a") as file:
        file.write("# more\n")
    assert main(["--root", str(checkout), "--out", str(checkout / "out")]) == 1
    assert name in capsys.readouterr().err
    assert not (checkout / "out").exists()


def test_a_version_is_tagged_once_with_what_the_changelog_says(checkout: Path) -> None:
    source.refuse_taken_tag(checkout, VERSION)
    git(checkout, "config", "user.name", "A")
    git(checkout, "config", "user.email", "a@b.c")
    source.tag(checkout, VERSION, source.changes_of(checkout, VERSION), source.commit_of(checkout)[0])
    assert git(checkout, "cat-file", "-t", f"v{VERSION}").strip() == "tag"
    assert "- First." in git(checkout, "tag", "--list", "-n9", f"v{VERSION}")
    with pytest.raises(NotReleasedError, match="exists"):
        source.refuse_taken_tag(checkout, VERSION)


def test_a_rehearsal_makes_no_tag(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--rehearse", "--tag"])
    assert "can't make a tag" in capsys.readouterr().err


def test_only_tracked_files_are_built_as_they_are_now(checkout: Path, tmp_path: Path) -> None:
    (checkout / "stray.py").write_text("")
    (checkout / "CITATION.cff").write_text("changed")
    source.copy_tracked(checkout, tmp_path / "copy")
    assert not (tmp_path / "copy/stray.py").exists()
    assert (tmp_path / "copy/CITATION.cff").read_text() == "changed"


def test_the_sums_are_those_that_sha256sum_checks(tmp_path: Path) -> None:
    (tmp_path / "a.whl").write_bytes(b"a")
    (tmp_path / "b.deb").write_bytes(b"b")
    assert checksums.write_sums(tmp_path) == 2
    check = ["sha256sum", "--check", "--quiet", checksums.NAME]
    assert subprocess.run(check, cwd=tmp_path, check=False, capture_output=True).returncode == 0
    (tmp_path / "b.deb").write_bytes(b"c")
    assert subprocess.run(check, cwd=tmp_path, check=False, capture_output=True).returncode == 1


def test_the_list_of_the_python_packages_has_what_the_wheels_depend_on(tmp_path: Path) -> None:
    file = tmp_path / "python.cdx.json"
    tool = Path(sys.executable).with_name("cyclonedx-py")
    sbom.write_python(tool, Path(sys.prefix), ROOT / "serving/pyproject.toml", file, 0)
    document = json.loads(file.read_text())
    listed = {one["name"].lower().replace("_", "-") for one in document["components"]}
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    needed += tomllib.loads((ROOT / "serving/pyproject.toml").read_text())["project"]["dependencies"]
    names = {re.split(r"[>=\[]", one)[0] for one in needed}
    assert len(names) > 8
    assert names <= listed
    assert document["metadata"]["component"]["name"] == "osml-serving"
    assert all(one.get("version") for one in document["components"])


def test_the_list_of_the_agent_has_its_libraries_and_what_it_needs_to_run(tmp_path: Path) -> None:
    cmake = (ROOT / "actuator/CMakeLists.txt").read_text()
    libraries = {"CURL", "Protobuf", "ZLIB", "nlohmann_json", "spdlog", "yaml-cpp", "CLI11"}
    assert set(sbom.asked_of_cmake(cmake)) == libraries
    parts = sbom.agent_parts(cmake, ["libc6 (>= 2.34)", "libfmt9"], lambda name: f"1.0-{name}")
    file = tmp_path / "agent.cdx.json"
    sbom.write_agent(VERSION, parts, file)
    document = json.loads(file.read_text())
    purls = {one["purl"] for one in document["components"]}
    assert "pkg:deb/debian/libfmt9@1.0-libfmt9?distro=debian-12" in purls
    assert "pkg:deb/debian/nlohmann-json3-dev@1.0-nlohmann-json3-dev?distro=debian-12" in purls
    assert not any("gtest" in purl for purl in purls)
    [depends] = [one for one in document["dependencies"] if one["ref"] == f"osml-agent@{VERSION}"]
    assert len(depends["dependsOn"]) == len(parts) == 9


def test_a_library_of_which_nobody_said_where_it_comes_from_is_refused() -> None:
    with pytest.raises(NotReleasedError, match=r"asks for \['Boost'\]"):
        sbom.agent_parts("find_package(Boost REQUIRED)", [], lambda name: "1")


def test_a_step_says_what_it_found_or_why_it_failed(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report()
    with report.step("first") as step:
        step.found = "two files"
    with pytest.raises(NotReleasedError, match=r"ended with code 3:\nbad"), report.step("second"):
        run(["sh", "-c", "echo bad >&2; exit 3"])
    assert [(name, found) for name, _, found in report.steps] == [("first", "two files")]
    assert "ok   first: two files" in capsys.readouterr().out


@pytest.mark.parametrize("where", ["stranger", ".", ".."])
def test_a_folder_of_something_else_is_not_emptied(
    checkout: Path, where: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkout / "stranger").mkdir()
    (checkout / "stranger/file").write_text("mine")
    assert main(["--root", str(checkout), "--out", str(checkout / where), "--rehearse"]) == 1
    assert "has files that no release wrote" in capsys.readouterr().err
    assert (checkout / "stranger/file").read_text() == "mine"


def test_the_tag_is_of_the_commit_that_was_built(checkout: Path) -> None:
    git(checkout, "config", "user.name", "A")
    git(checkout, "config", "user.email", "a@b.c")
    built, _ = source.commit_of(checkout)
    git(checkout, "commit", "--quiet", "--allow-empty", "--message", "Two")
    source.tag(checkout, VERSION, "- First.", built)
    assert git(checkout, "rev-list", "-n", "1", f"v{VERSION}").strip() == built
