"""The number of usable processors: affinity mask and quotas of cgroups."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dovetail_onednn.processors import usable_processors


@pytest.fixture(autouse=True)
def eight_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "process_cpu_count", lambda: 8, raising=False)


def files(root: Path, contents: dict[str, str]) -> Path:
    for name, text in contents.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


V2 = {"proc/self/cgroup": "0::/a/b\n"}
V1 = {"proc/self/cgroup": "5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n"}
V1_ROOT = "sys/fs/cgroup/cpu,cpuacct"


@pytest.mark.parametrize(
    ("contents", "count"),
    [
        ({}, 8),
        (V2, 8),
        (V2 | {"sys/fs/cgroup/a/b/cpu.max": "200000 100000\n"}, 2),
        (V2 | {"sys/fs/cgroup/a/b/cpu.max": "150000 100000\n"}, 2),
        (V2 | {"sys/fs/cgroup/a/b/cpu.max": "1000 100000\n"}, 1),
        (V2 | {"sys/fs/cgroup/a/b/cpu.max": "max 100000\n"}, 8),
        (V2 | {"sys/fs/cgroup/a/b/cpu.max": "1600000 100000\n"}, 8),
        # of an ancestor, and of the container's own group, whose path is the host's
        (
            V2
            | {
                "sys/fs/cgroup/a/b/cpu.max": "500000 100000\n",
                "sys/fs/cgroup/a/cpu.max": "300000 100000\n",
            },
            3,
        ),
        (V2 | {"sys/fs/cgroup/cpu.max": "400000 100000\n"}, 4),
        ({"proc/self/cgroup": "0::/../x\n", "sys/fs/cgroup/cpu.max": "300000 100000"}, 3),
        (
            V2 | {"sys/fs/cgroup/unified/a/b/cpu.max": "200000 100000\n"},
            2,
        ),
        (
            V1
            | {
                f"{V1_ROOT}/docker/abc/cpu.cfs_quota_us": "250000\n",
                f"{V1_ROOT}/docker/abc/cpu.cfs_period_us": "50000\n",
            },
            5,
        ),
        (
            V1
            | {
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "300000\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            3,
        ),
        (
            V1
            | {
                f"{V1_ROOT}/docker/abc/cpu.cfs_quota_us": "-1\n",
                f"{V1_ROOT}/docker/abc/cpu.cfs_period_us": "100000\n",
            },
            8,
        ),
        # what no kernel writes changes nothing
        (V2 | {"sys/fs/cgroup/a/b/cpu.max": "\n"}, 8),
        (V2 | {"sys/fs/cgroup/a/b/cpu.max": "1 2 3"}, 8),
        (V2 | {"sys/fs/cgroup/a/b/cpu.max": "200000 0"}, 8),
        (V2 | {"sys/fs/cgroup/a/b/cpu.max": "zwei\u00b2 1"}, 8),
        ({"proc/self/cgroup": "nonsense\n::\n0:\n"}, 8),
    ],
)
def test_quotas_of_cgroups(tmp_path: Path, contents: dict[str, str], count: int) -> None:
    assert usable_processors(files(tmp_path, contents)) == count


def test_the_affinity_mask(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delattr(os, "process_cpu_count")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 4, 5}, raising=False)
    assert usable_processors(tmp_path) == 3


def test_without_an_affinity_mask(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delattr(os, "process_cpu_count")
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert usable_processors(tmp_path) == 6
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_processors(tmp_path) == 1
