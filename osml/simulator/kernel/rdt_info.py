"""The info directory of resctrl: what the hardware can do, and how the last command went."""

from __future__ import annotations

import errno
from collections.abc import Mapping

from osml.simulator.kernel import numbers
from osml.simulator.kernel.groups import Group, Status
from osml.simulator.kernel.kernfs import Caller, Directory, File, directory, error, file
from osml.simulator.kernel.rdt import RdtProfile


def _constants(values: dict[str, str]) -> Directory:
    """Read-only files with fixed contents."""
    made = directory(0o555)
    for name, text in values.items():
        made.add(name, file(lambda text=text: text + "\n"))
    return made


def _bit_usage(profile: RdtProfile, groups: Mapping[str, Group]) -> str:
    """One character per way, highest first: X hardware and software, H hardware, S shareable, E exclusive, 0 unused."""
    parts: list[str] = []
    for domain, _ in profile.domains:
        exclusive = shared = 0
        for group in groups.values():
            if group.mode == "exclusive":
                exclusive |= group.values["L3"][domain]
            else:
                shared |= group.values["L3"][domain]
        hardware = profile.shareable_bits
        cells = ""
        for bit in reversed(range(profile.cbm_bits)):
            hw, sw, ex = (mask >> bit & 1 for mask in (hardware, shared, exclusive))
            cells += "X" if hw and (sw or ex) else "H" if hw else "S" if sw else "E" if ex else "0"
        parts.append(f"{domain}={cells}")
    return ";".join(parts) + "\n"


def _threshold(profile: RdtProfile) -> File:
    """max_threshold_occupancy: bytes, in whole units of the monitor."""
    scale = profile.monitor_scale
    now = profile.cache_bytes // profile.n_rmids // scale * scale

    def write(text: str, _: Caller) -> None:
        nonlocal now
        value = numbers.signed_any_base(text.strip(), bits=33)
        if value < 0 or value > profile.cache_bytes:
            raise error(errno.EINVAL)
        now = value // scale * scale

    return file(lambda: f"{now}\n", write)


def _write_assign_mode(status: Status, text: str) -> None:
    if not text.endswith("\n"):
        raise error(errno.EINVAL)
    status.clear()
    if text == "mbm_event\n":
        raise status.refuse(errno.EINVAL, "mbm_event mode is not supported\n")
    if text != "default\n":
        raise status.refuse(errno.EINVAL, "Unsupported assign mode\n")


def info_directory(profile: RdtProfile, groups: Mapping[str, Group], status: Status) -> Directory:
    """The whole directory for a machine's profile. `groups` are the control groups as they are at each reading."""
    info = directory(0o555)
    cache = _constants(
        {
            "num_closids": str(profile.n_closids),
            "cbm_mask": f"{profile.full_mask:x}",
            "min_cbm_bits": str(profile.min_cbm_bits),
            "shareable_bits": f"{profile.shareable_bits:x}",
            "sparse_masks": str(int(profile.sparse_masks)),
        }
    )
    cache.add("bit_usage", file(lambda: _bit_usage(profile, groups)))
    info.add("L3", cache)
    if profile.throttle is not None:
        values = {
            "num_closids": str(profile.n_closids),
            "min_bandwidth": str(profile.throttle.low),
            "bandwidth_gran": str(profile.throttle.step),
            "delay_linear": str(int(not profile.throttle.eighths)),
        }
        if not profile.throttle.eighths:
            values["thread_throttle_mode"] = "max"
        info.add("MB", _constants(values))
    monitor = _constants({"num_rmids": str(profile.n_rmids), "mon_features": "\n".join(profile.events)})

    def write_mode(text: str, _: Caller) -> None:
        _write_assign_mode(status, text)

    monitor.add("max_threshold_occupancy", _threshold(profile))
    monitor.add("mbm_assign_mode", file(lambda: "[default]\n", write_mode))
    info.add("L3_MON", monitor)
    info.add("last_cmd_status", file(status.show))
    return info
