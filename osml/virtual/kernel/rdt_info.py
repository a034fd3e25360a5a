"""The info directory of resctrl: what the hardware can do, and how the last command went."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from osml.virtual.kernel import numbers
from osml.virtual.kernel.kernfs import Caller, Directory, directory, error, file

if TYPE_CHECKING:
    from osml.virtual.kernel.resctrl import Resctrl


def _constants(values: dict[str, str]) -> Directory:
    """Read-only files with fixed contents."""
    made = directory(0o555)
    for name, text in values.items():
        made.add(name, file(lambda text=text: text + "\n"))
    return made


def _bit_usage(resctrl: Resctrl) -> str:
    """One character per way, highest first: X hardware and software, H hardware, S shareable, E exclusive, 0 unused."""
    parts: list[str] = []
    for domain, _ in resctrl.profile.domains:
        groups = resctrl.groups.values()
        exclusive = shared = 0
        for group in groups:
            if group.mode == "exclusive":
                exclusive |= group.values["L3"][domain]
            else:
                shared |= group.values["L3"][domain]
        hardware = resctrl.profile.shareable_bits
        cells = ""
        for bit in reversed(range(resctrl.profile.cbm_bits)):
            hw, sw, ex = (mask >> bit & 1 for mask in (hardware, shared, exclusive))
            cells += "X" if hw and (sw or ex) else "H" if hw else "S" if sw else "E" if ex else "0"
        parts.append(f"{domain}={cells}")
    return ";".join(parts) + "\n"


def _write_threshold(resctrl: Resctrl, text: str) -> None:
    value = numbers.signed_any_base(text.strip(), bits=33)
    if value < 0 or value > resctrl.profile.cache_bytes:
        raise error(errno.EINVAL)
    resctrl.max_threshold = value // resctrl.profile.monitor_scale * resctrl.profile.monitor_scale


def _write_assign_mode(resctrl: Resctrl, text: str) -> None:
    if not text.endswith("\n"):
        raise error(errno.EINVAL)
    resctrl.status.clear()
    if text == "mbm_event\n":
        raise resctrl.status.refuse(errno.EINVAL, "mbm_event mode is not supported\n")
    if text != "default\n":
        raise resctrl.status.refuse(errno.EINVAL, "Unsupported assign mode\n")


def info_directory(resctrl: Resctrl) -> Directory:
    """The whole directory for a machine's profile."""
    profile = resctrl.profile
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
    cache.add("bit_usage", file(lambda: _bit_usage(resctrl)))
    info.add("L3", cache)
    if profile.throttle is not None:
        info.add(
            "MB",
            _constants(
                {
                    "num_closids": str(profile.n_closids),
                    "min_bandwidth": str(profile.throttle.low),
                    "bandwidth_gran": str(profile.throttle.step),
                    "delay_linear": "1",
                    "thread_throttle_mode": "max",
                }
            ),
        )
    monitor = _constants({"num_rmids": str(profile.n_rmids), "mon_features": "\n".join(profile.events)})

    def write_threshold(text: str, _: Caller) -> None:
        _write_threshold(resctrl, text)

    def write_mode(text: str, _: Caller) -> None:
        _write_assign_mode(resctrl, text)

    monitor.add("max_threshold_occupancy", file(lambda: f"{resctrl.max_threshold}\n", write_threshold))
    monitor.add("mbm_assign_mode", file(lambda: "[default]\n", write_mode))
    info.add("L3_MON", monitor)
    info.add("last_cmd_status", file(resctrl.status.show))
    return info
