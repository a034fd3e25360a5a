"""Plain files that are watched: which command a write was, and groups that come and go while one looks."""

import errno
import os
import shutil
import time
from pathlib import Path

import pytest

from osml.simulator.kernel.kernfs import Directory, Tree, directory, file
from osml.simulator.mount.plain_files import PlainExport, command_in


@pytest.mark.parametrize(
    ("before", "after", "written"),
    [
        (b"    L3:0=fffff\n", b"L3:0=3f\nfffff\n"[:8] + b"    L3:0=fffff\n"[8:], b"L3:0=3f\n"),
        (b"0-35\n", b"0-3\n\n", b"0-3\n"),
        (b"0-3\n", b"0-3,18-21\n", b"0-3,18-21\n"),
        (b"\n", b"5\n", b"5\n"),
        (b"1\n2\n", b"1\n2\n7\n", b"7\n"),
        (b"", b"4\n", b"4\n"),
        (b"max 100000\n", b"150000 100000\n", b"150000 100000\n"),
    ],
)
def test_the_command_is_found_in_what_a_write_left_behind(before, after, written):
    assert command_in(before, after) == written


class OvertakenTree(Tree):
    """A tree with one place for groups; `after_mkdir` runs between a group's making and its export."""

    def __init__(self):
        groups = directory()
        groups.make = lambda name, caller: groups.add(name, self.group(), caller) and None
        groups.remove = groups.drop
        root = directory()
        root.add("resctrl", groups)
        super().__init__(root)
        self.after_mkdir = None

    @staticmethod
    def group():
        made = directory()
        made.add("tasks", file(lambda: "1\n"))
        made.add("mon_data", directory()).add("bytes", file(lambda: "7\n"))
        return made

    def mkdir(self, path, *rest):
        super().mkdir(path, *rest)
        if self.after_mkdir is not None:
            self.after_mkdir()
            self.after_mkdir = None

    def groups(self):
        return sorted(
            name for name, entry in self.root.children["resctrl"].children.items() if isinstance(entry, Directory)
        )


@pytest.fixture
def overtaken(tmp_path):
    tree = OvertakenTree()
    export = PlainExport(tree, tmp_path)
    export.start()
    yield tree, export, tmp_path / "resctrl"
    export.stop()


def test_a_group_made_again_between_look_and_unlink_is_a_group(overtaken, monkeypatch):
    tree, export, top = overtaken
    (top / "g").mkdir()
    is_dir, asked = Path.is_dir, []

    def gone_when_first_asked(path, **options):
        asked.append(path)
        return is_dir(path, **options) and (path.name != "g" or asked.count(path) > 1)

    monkeypatch.setattr(Path, "is_dir", gone_when_first_asked)
    time.sleep(0.05)  # so long that only the race itself makes the next poll look again
    export.poll()
    assert tree.groups() == []
    export.poll()
    assert tree.groups() == ["g"]
    assert (top / "g/tasks").read_text() == "1\n"


def replaced_by_a_file(path):
    def act():
        shutil.rmtree(path)
        path.write_text("in the way")

    return act


def holding(path, name, *, as_file):
    def act():
        if as_file:
            (path / name).write_text("in the way")
        else:
            (path / name).mkdir()

    return act


@pytest.mark.parametrize(
    "overtake",
    [
        replaced_by_a_file,  # FileExistsError
        lambda group: lambda: shutil.rmtree(group.parent),  # FileNotFoundError
        lambda group: holding(group, "tasks", as_file=False),  # IsADirectoryError
        lambda group: holding(group, "mon_data", as_file=True),  # FileExistsError
    ],
)
def test_a_group_overtaken_while_it_is_filled_is_gone_and_can_be_made_again(overtaken, overtake):
    tree, export, top = overtaken
    (top / "g").mkdir()
    tree.after_mkdir = overtake(top / "g")
    export.poll()
    assert tree.groups() == []
    top.mkdir(exist_ok=True)
    export.poll()
    assert not (top / "g").exists()
    (top / "g").mkdir()
    export.poll()
    assert tree.groups() == ["g"]
    assert (top / "g/mon_data/bytes").read_text() == "7\n"


def test_a_group_whose_directory_became_a_file_is_gone(overtaken):
    tree, export, top = overtaken
    (top / "g").mkdir()
    export.poll()
    replaced_by_a_file(top / "g")()
    export.poll()
    export.poll()
    assert tree.groups() == []
    assert not (top / "g").exists()


def test_a_file_that_cannot_come_back_at_once_comes_back_later(overtaken, monkeypatch):
    tree, export, top = overtaken
    (top / "g").mkdir()
    export.poll()
    monkeypatch.setattr("osml.simulator.mount.plain_files._PATIENCE_S", 0.0)
    (top / "g/tasks").unlink()
    replace, failures = Path.replace, []

    def replace_once_overtaken(path, target):
        if target.name == "tasks" and not failures:
            failures.append(target)
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), target)
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", replace_once_overtaken)
    export.poll()
    assert failures
    assert not (top / "g/tasks").exists()
    export.poll()
    assert (top / "g/tasks").read_text() == "1\n"
    assert tree.groups() == ["g"]


def test_a_new_file_is_not_seen_before_its_content(overtaken):
    tree, export, top = overtaken
    already_there = []

    def show():
        already_there.append((top / "g/schemata").exists())
        return "MB:0=100\n"

    made = directory()
    made.add("schemata", file(show))
    tree.group = lambda: made
    (top / "g").mkdir()
    export.poll()
    assert already_there[0] is False
    assert (top / "g/schemata").read_text() == "MB:0=100\n"
    assert not (top.parent / ".draft").exists()


def test_a_draft_that_was_left_behind_is_not_written_into(tmp_path):
    other = tmp_path / "other"
    other.write_text("somebody's")
    (tmp_path / ".draft").symlink_to(other)
    export = PlainExport(OvertakenTree(), tmp_path)
    export._tree.root.add("proc", file(lambda: "1\n"))
    export.start()
    assert other.read_text() == "somebody's"
    assert (tmp_path / "proc").read_text() == "1\n"
    export.stop()


def test_a_command_that_comes_while_another_is_obeyed_is_obeyed_next(tmp_path):
    obeyed = []

    def store(text, caller):
        obeyed.append(text)
        if len(obeyed) == 1:
            (tmp_path / "resctrl/tasks").write_text("7\n")

    root = directory()
    root.add("resctrl", directory()).add("tasks", file(lambda: "".join(obeyed), store))
    export = PlainExport(Tree(root), tmp_path)
    export.start()
    (tmp_path / "resctrl/tasks").write_text("5\n")
    export.poll()
    export.poll()
    assert obeyed == ["5\n", "7\n"]
    assert (tmp_path / "resctrl/tasks").read_text() == "5\n7\n"
    export.stop()


def test_an_emptied_file_with_a_time_in_the_future_is_reverted(tmp_path):
    root = directory()
    root.add("resctrl", directory()).add("tasks", file(lambda: "5\n", lambda text, caller: None))
    export = PlainExport(Tree(root), tmp_path)
    export.start()
    path = tmp_path / "resctrl/tasks"
    path.write_text("")
    later = time.time() + 3600.0
    os.utime(path, (later, later))
    export.poll()
    assert path.read_text() == "5\n"
    export.stop()
