"""What MemoryDenyWriteExecute= of systemd does, by the means of the kernel (Linux 6.3): children inherit it."""

UNKNOWN = "this kernel cannot deny executable memory"
PRELUDE = f"""
import ctypes
if ctypes.CDLL(None).prctl(65, 1, 0, 0, 0) != 0:  # PR_SET_MDWE
    raise SystemExit("{UNKNOWN}")
"""
