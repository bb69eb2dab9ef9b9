"""Number of processors that this process may use: affinity mask and quotas of its cgroups."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath


def usable_processors(root: Path = Path("/")) -> int:
    """Return how many processors this process may keep busy, at least 1.

    Args:
        root: Folder in which `proc` and `sys` are mounted.
    """
    return max(1, min([_affinity(), *map(math.ceil, _quotas(root))]))


def _affinity() -> int:
    """Return the number of processors in the affinity mask, or of all where there is none."""
    if hasattr(os, "process_cpu_count"):  # since Python 3.13; heeds PYTHON_CPU_COUNT, too
        return os.process_cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quotas(root: Path) -> Iterator[float]:
    """Yield the quotas, in processors, of the cgroups that this process is in.

    A cgroup's own quota and those of all its ancestors apply. Inside a container the paths in
    `/proc/self/cgroup` may be those of the host, where only the topmost group is mounted.

    Source: Linux, admin-guide/cgroup-v1/cgroups.rst and scheduler/sched-bwc.rst, cgroup-v2.rst.
    """
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if number == "0" and not controllers:
            mounts, read = ("sys/fs/cgroup", "sys/fs/cgroup/unified"), _quota_of_v2
        elif "cpu" in controllers.split(","):
            mounts, read = (f"sys/fs/cgroup/{controllers}", "sys/fs/cgroup/cpu"), _quota_of_v1
        else:
            continue
        path = PurePosixPath(group.lstrip("/"))
        if ".." in path.parts:  # a group outside the container's own
            path = PurePosixPath()
        for mount in mounts:
            for each in (path, *path.parents):
                quota = read(root / mount / each)
                if quota is not None:
                    yield quota


def _quota_of_v2(group: Path) -> float | None:
    """Return the quota of a group of version 2, `cpu.max`; None if it has none."""
    fields = _text(group / "cpu.max").split()
    return _ratio(*fields) if len(fields) == 2 else None


def _quota_of_v1(group: Path) -> float | None:
    """Return the quota of a group of version 1; None if it has none."""
    return _ratio(_text(group / "cpu.cfs_quota_us"), _text(group / "cpu.cfs_period_us"))


def _ratio(quota: str, period: str) -> float | None:
    try:
        allowed, per = int(quota), int(period)
    except ValueError:  # "max", or there is no such file
        return None
    return allowed / per if allowed > 0 and per > 0 else None


def _text(path: Path) -> str:
    try:
        return path.read_text("ascii").strip()
    except (OSError, ValueError):  # ValueError: not ASCII
        return ""
