"""The emulated file systems of a node: resctrl, cgroup v2, sysfs and proc, in memory and without FUSE."""
