"""The emulated resctrl behaves as the kernel's: errno, texts, atomicity, defaults, what a removed group leaves."""

import errno
from dataclasses import replace

import pytest

from osml.simulator.kernel import rename
from osml.simulator.kernel.kernfs import Caller
from osml.simulator.kernel.rdt import RdtProfile, Throttle
from osml.simulator.kernel.resctrl import Resctrl
from osml.simulator.kernel.tasks import SimulatedTasks

TWO_SOCKETS = RdtProfile(
    n_cpus=8,
    domains=((0, frozenset(range(4))), (1, frozenset(range(4, 8)))),
    cache_bytes=16 * 2**20,
    cbm_bits=11,
    n_closids=4,
    shareable_bits=0x600,
    throttle=Throttle(),
)
TWENTY_WAYS = replace(TWO_SOCKETS, cbm_bits=20, n_closids=8, shareable_bits=0)
FULL = b"    MB:0=100;1=100\n    L3:0=7ff;1=7ff\n"


def resctrl(profile: RdtProfile = TWO_SOCKETS) -> Resctrl:
    return Resctrl(profile, SimulatedTasks())


def status(fs: Resctrl) -> str:
    return fs.tree.read("info/last_cmd_status").decode()


def refused(fs: Resctrl, path: str, data: bytes, code: int, text: str | None = None) -> None:
    with pytest.raises(OSError) as caught:
        fs.tree.write(path, data)
    assert caught.value.errno == code
    if text is not None:
        assert status(fs) == text


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("\n", "Missing ':'\n"),
        ("L3\n", "Missing ':'\n"),
        ("L3:0=f\n\n", "Missing ':'\n"),
        ("\nL3:0=f\n", "Missing ':'\n"),
        ("L3:\n", "Missing 'L3' value\n"),
        ("XX:\n", "Missing 'XX' value\n"),
        ("XX:0=1\n", "Unknown or unsupported resource name 'XX'\n"),
        ("l3:0=1\n", "Unknown or unsupported resource name 'l3'\n"),
        ("L3:0\n", "Missing '=' or non-numeric domain\n"),
        ("L3: 0=f\n", "Missing '=' or non-numeric domain\n"),
        ("L3:0 =f\n", "Missing '=' or non-numeric domain\n"),
        ("L3:*=f\n", "Missing '=' or non-numeric domain\n"),
        ("L3:0=f;;1=f\n", "Missing '=' or non-numeric domain\n"),
        ("L3:7=f\n", "ok\n"),
        ("L3:0=f;0=3\n", "Duplicate domain 0\n"),
        ("L3:0=f\nL3:0=3\n", "Duplicate domain 0\n"),
        ("MB:0=20;0=30\n", "Duplicate domain 0\n"),
        ("L3:0=zz\n", "Non-hex character in the mask zz\n"),
        ("L3:0=\n", "Non-hex character in the mask \n"),
        ("L3:0=10000000000000000\n", "Non-hex character in the mask 10000000000000000\n"),
        ("L3:0=0\n", "Mask out of range\n"),
        ("L3:0=fff\n", "Mask out of range\n"),
        ("L3:0=0x7E7\n", "The mask 7e7 has non-consecutive 1-bits\n"),
        ("L3:0=f;1=5\n", "The mask 5 has non-consecutive 1-bits\n"),
        ("MB:0=20\nL3:0=5\n", "The mask 5 has non-consecutive 1-bits\n"),
        ("MB:0=9\n", "MB value 9 out of range [10,100]\n"),
        ("MB:0=101\n", "MB value 101 out of range [10,100]\n"),
        ("MB:0=-1\n", "Invalid MB value -1\n"),
        ("MB:0=50.5\n", "Invalid MB value 50.5\n"),
    ],
)
def test_a_wrong_schemata_command_changes_nothing_and_says_why(command, text):
    fs = resctrl()
    refused(fs, "schemata", command.encode(), errno.EINVAL, text)
    assert fs.tree.read("schemata") == FULL


@pytest.mark.parametrize(
    ("command", "result"),
    [
        ("L3:0=f\n", "    MB:0=100;1=100\n    L3:0=f;1=7ff\n"),
        ("L3:1=3;0=f\n", "    MB:0=100;1=100\n    L3:0=f;1=3\n"),
        ("  L3 :+00= 0X7F \r\n", "    MB:0=100;1=100\n    L3:0=7f;1=7ff\n"),
        ("L3:0=f\nMB:1=15\n", "    MB:0=100;1=20\n    L3:0=f;1=7ff\n"),
        ("MB:0=91\n", FULL.decode()),
        (FULL.decode(), FULL.decode()),
        ("L3:0=000000000000000000007f\n", "    MB:0=100;1=100\n    L3:0=7f;1=7ff\n"),
    ],
)
def test_a_right_schemata_command_merges(command, result):
    fs = resctrl()
    assert fs.tree.write("schemata", command.encode()) == len(command)
    assert fs.tree.read("schemata").decode() == result
    assert status(fs) == "ok\n"


def test_a_missing_newline_is_refused_without_touching_the_status():
    fs = resctrl()
    refused(fs, "schemata", b"L3:0=fff\n", errno.EINVAL, "Mask out of range\n")
    refused(fs, "schemata", b"L3:0=f", errno.EINVAL, "Mask out of range\n")


def test_a_command_of_more_than_a_page_is_too_big():
    fs = resctrl()
    assert fs.tree.write("schemata", b"L3:0=f" + b" " * 4089 + b"\n") == 4096
    refused(fs, "schemata", b"L3:0=f" + b" " * 4090 + b"\n", errno.E2BIG)


def test_minimum_width_and_sparse_masks():
    fs = resctrl(replace(TWENTY_WAYS, min_cbm_bits=2))
    refused(fs, "schemata", b"L3:0=1\n", errno.EINVAL, "Need at least 2 bits in the mask\n")
    fs = resctrl(replace(TWENTY_WAYS, sparse_masks=True))
    fs.tree.write("schemata", b"L3:0=f0f\n")
    assert b"L3:0=f0f;" in fs.tree.read("schemata")


def test_a_platform_without_mba_has_no_mb_line():
    fs = resctrl(replace(TWENTY_WAYS, throttle=None))
    assert fs.tree.read("schemata") == b"    L3:0=fffff;1=fffff\n"
    assert "MB" not in fs.tree.listdir("info")
    refused(fs, "schemata", b"MB:0=50\n", errno.EINVAL, "Unknown or unsupported resource name 'MB'\n")


def test_groups_run_out_and_come_back():
    fs = resctrl()
    for name in ("p0", "p1", "p2"):
        fs.tree.mkdir(name)
    with pytest.raises(OSError) as caught:
        fs.tree.mkdir("p3")
    assert (caught.value.errno, status(fs)) == (errno.ENOSPC, "Out of CLOSIDs\n")
    fs.tree.rmdir("p1")
    fs.tree.mkdir("p3")
    assert fs.groups["p3"].closid == 2  # lowest free first


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("p0", errno.EEXIST),
        ("info", errno.EEXIST),
        ("schemata", errno.EEXIST),
        ("a\nb", errno.EINVAL),
        ("p0/x", errno.EPERM),
        ("info/x", errno.EPERM),
        ("mon_data/x", errno.EPERM),
        ("mon_groups/mon_groups", errno.EPERM),
        ("none/x", errno.ENOENT),
        ("schemata/x", errno.ENOTDIR),
    ],
)
def test_groups_can_not_be_made_everywhere(path, code):
    fs = resctrl()
    fs.tree.mkdir("p0")
    with pytest.raises(OSError) as caught:
        fs.tree.mkdir(path)
    assert caught.value.errno == code


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("info", errno.EPERM),
        ("info/L3", errno.EPERM),
        ("mon_data", errno.EPERM),
        ("mon_groups", errno.EPERM),
        ("p0/mon_data", errno.EPERM),
        ("", errno.EBUSY),
        ("none", errno.ENOENT),
        ("tasks", errno.ENOTDIR),
    ],
)
def test_what_is_no_group_can_not_be_removed(path, code):
    fs = resctrl()
    fs.tree.mkdir("p0")
    with pytest.raises(OSError) as caught:
        fs.tree.rmdir(path)
    assert caught.value.errno == code


def test_a_removed_group_gives_tasks_and_cpus_back_and_its_files_are_dead():
    fs = resctrl()
    pid = fs.tasks.spawn("worker", 2)
    fs.tree.mkdir("p0")
    fs.tree.mkdir("p0/mon_groups/m0")
    fs.tree.write("p0/tasks", f"{pid},{pid + 1}\n".encode())
    fs.tree.write("p0/mon_groups/m0/tasks", f"{pid}\n".encode())
    fs.tree.write("p0/cpus_list", b"2-3\n")
    assert fs.tree.read("tasks") == b""
    held = fs.tree.lookup("p0/schemata")
    fs.tree.rmdir("p0")
    assert fs.tree.read("tasks").decode() == f"{pid}\n{pid + 1}\n"
    assert fs.tree.read("cpus_list") == b"0-7\n"
    for call in (held.read, lambda: held.write(b"L3:0=f\n")):
        with pytest.raises(OSError) as caught:
            call()
        assert caught.value.errno == errno.ENODEV


def test_files_without_write_permission_can_not_be_written_by_anybody():
    fs = resctrl()
    for path in ("size", "info/L3/cbm_mask", "info/last_cmd_status", "mon_data/mon_L3_00/llc_occupancy"):
        refused(fs, path, b"1\n", errno.EACCES)


TASK_COMMANDS = [
    ("abc\n", errno.EINVAL, "Task list parsing error pid abc\n"),
    ("{pid} {tid}\n", errno.EINVAL, "Task list parsing error pid {pid} {tid}\n"),
    ("{pid}\n{tid}\n", errno.EINVAL, "Task list parsing error pid {pid}\n{tid}\n"),
    ("{pid},,{tid}\n", errno.EINVAL, "Task list parsing error pid \n"),
    ("09\n", errno.EINVAL, "Task list parsing error pid 09\n"),
    ("-5\n", errno.EINVAL, "Invalid pid -5\n"),
    ("{pid},4999999,{tid}\n", errno.ESRCH, "No task 4999999\nError while processing task 4999999\n"),
]


@pytest.mark.parametrize(("command", "code", "text"), TASK_COMMANDS)
def test_a_wrong_task_list_stops_where_it_is_wrong(command, code, text):
    fs = resctrl()
    pid = fs.tasks.spawn("worker", 2)
    fs.tree.mkdir("p0")
    names = {"pid": pid, "tid": pid + 1}
    refused(fs, "p0/tasks", command.format(**names).encode(), code, text.format(**names))
    moved = command.startswith("{pid},")
    assert fs.tree.read("p0/tasks").decode() == (f"{pid}\n" if moved else "")


def test_task_lists_may_have_spaces_hex_and_a_trailing_comma():
    fs = resctrl()
    pid = fs.tasks.spawn("worker", 3)
    fs.tree.mkdir("p0")
    fs.tree.write("p0/tasks", f" {pid} , {pid + 1:#x},\n".encode())
    assert fs.tree.read("p0/tasks").decode() == f"{pid}\n{pid + 1}\n"
    assert fs.tree.write("p0/tasks", b"\n") == 1


def test_only_the_owner_or_root_moves_a_task():
    fs = resctrl()
    pid = fs.tasks.spawn("worker", 1)
    fs.tree.mkdir("p0")
    with pytest.raises(OSError) as caught:
        fs.tree.write("p0/tasks", f"{pid}\n".encode(), Caller(uid=1000))
    assert caught.value.errno == errno.EPERM
    assert status(fs) == f"No permission to move task {pid}\nError while processing task {pid}\n"


def test_a_monitoring_group_takes_only_its_parents_tasks():
    fs = resctrl()
    pid = fs.tasks.spawn("worker", 1)
    fs.tree.mkdir("p0")
    fs.tree.mkdir("p0/mon_groups/m0")
    refused(
        fs,
        "p0/mon_groups/m0/tasks",
        f"{pid}\n".encode(),
        errno.EINVAL,
        f"Can't move task to different control group\nError while processing task {pid}\n",
    )
    fs.tree.write("p0/tasks", f"{pid}\n".encode())
    fs.tree.write("p0/mon_groups/m0/tasks", f"{pid}\n".encode())
    assert fs.tree.read("p0/tasks") == fs.tree.read("p0/mon_groups/m0/tasks") == f"{pid}\n".encode()


@pytest.mark.parametrize(
    ("path", "data", "code", "text"),
    [
        ("p0/cpus_list", b"abc\n", errno.EINVAL, "Bad CPU list/mask\n"),
        ("p0/cpus_list", b"0-8\n", errno.ERANGE, "Bad CPU list/mask\n"),
        ("p0/cpus", b"1,00000000,00000000\n", errno.EOVERFLOW, "Bad CPU list/mask\n"),
        ("cpus_list", b"0-6\n", errno.EINVAL, "Can't drop CPUs from default group\n"),
        ("mon_groups/m0/cpus_list", b"1\n", errno.EINVAL, "Can only add CPUs to mongroup that belong to parent\n"),
    ],
)
def test_a_wrong_cpu_list_is_refused(path, data, code, text):
    fs = resctrl()
    fs.tree.mkdir("p0")
    fs.tree.mkdir("mon_groups/m0")
    fs.tree.write("p0/cpus_list", b"1\n")
    refused(fs, path, data, code, text)


def test_cpus_move_between_groups():
    fs = resctrl()
    fs.tree.mkdir("p0")
    fs.tree.mkdir("p1")
    fs.tree.write("p0/cpus_list", b"0-7:1/2")
    assert fs.tree.read("p0/cpus") == b"55\n"
    fs.tree.write("p1/cpus", b"03\n")
    assert fs.tree.read("p0/cpus_list") == b"2,4,6\n"
    assert fs.tree.read("cpus_list") == b"3,5,7\n"


def test_exclusive_groups_are_fenced_both_ways():
    fs = resctrl(TWENTY_WAYS)
    fs.tree.mkdir("p0")
    refused(fs, "p0/mode", b"exclusive\n", errno.EINVAL, "Schemata overlaps\n")
    fs.tree.write("schemata", b"L3:0=ffff0;1=ffff0\n")
    fs.tree.write("p0/schemata", b"L3:0=f;1=f\n")
    fs.tree.write("p0/mode", b"exclusive\n")
    assert fs.tree.read("info/L3/bit_usage") == b"0=SSSSSSSSSSSSSSSSEEEE;1=SSSSSSSSSSSSSSSSEEEE\n"
    refused(fs, "schemata", b"L3:0=fffff\n", errno.EINVAL, "Overlaps with exclusive group\n")
    refused(fs, "p0/schemata", b"L3:0=1f\n", errno.EINVAL, "Overlaps with other group\n")
    fs.tree.mkdir("p1")
    assert b"L3:0=ffff0;1=ffff0" in fs.tree.read("p1/schemata")
    fs.tree.write("p0/schemata", b"L3:0=3\n")
    fs.tree.rmdir("p0")
    refused(fs, "mode", b"pseudo-locked\n", errno.EINVAL, "Unknown or unsupported mode\n")
    refused(fs, "mode", b"exclusive", errno.EINVAL)


def test_size_divides_before_it_multiplies():
    fs = resctrl()
    fs.tree.write("schemata", b"L3:0=1\nMB:0=50\n")
    assert fs.tree.read("size") == b"    MB:0=50;1=100\n    L3:0=1525201;1=16777211\n"


def test_info_tells_the_hardware():
    fs = resctrl()
    assert fs.tree.listdir("info") == ["L3", "L3_MON", "MB", "last_cmd_status"]
    for path, content in {
        "info/L3/cbm_mask": "7ff\n", "info/L3/num_closids": "4\n", "info/L3/min_cbm_bits": "1\n",
        "info/L3/shareable_bits": "600\n", "info/L3/bit_usage": "0=XXSSSSSSSSS;1=XXSSSSSSSSS\n",
        "info/MB/min_bandwidth": "10\n", "info/MB/bandwidth_gran": "10\n", "info/L3_MON/num_rmids": "64\n",
        "info/L3_MON/mon_features": "llc_occupancy\nmbm_total_bytes\nmbm_local_bytes\n",
    }.items():  # fmt: skip
        assert fs.tree.read(path).decode() == content
    fs.tree.write("info/L3_MON/max_threshold_occupancy", b"200000\n")
    assert fs.tree.read("info/L3_MON/max_threshold_occupancy") == b"196608\n"
    refused(fs, "info/L3_MON/max_threshold_occupancy", b"4294967295\n", errno.EINVAL)


def test_only_monitoring_groups_can_be_renamed():
    fs = resctrl()
    fs.tree.mkdir("p0")
    fs.tree.mkdir("mon_groups/m0")
    with pytest.raises(OSError) as caught:
        rename.rename(fs, "p0", "p1")
    assert (caught.value.errno, status(fs)) == (errno.EPERM, "Source must be a MON group\n")
    rename.rename(fs, "mon_groups/m0", "p0/mon_groups/m1")
    assert fs.tree.listdir("p0/mon_groups") == ["m1"]
    assert fs.tree.listdir("mon_groups") == []
