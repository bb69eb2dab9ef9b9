"""Decisions of earlier trials, one small file each in the user's cache folder."""

from __future__ import annotations

import hashlib
import logging
import math
import os
import platform
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from dovetail import __version__
from dovetail.errors import DovetailError
from dovetail.files import atomic_write, read_limited, user_cache
from dovetail.ir import Tensor
from dovetail.ops import CheckedGraph
from dovetail.runtime.choice.plans import Plan
from dovetail.runtime.choice.selection import Times
from dovetail.runtime.placement.options import HeteroDeviceConfig, HeteroGraphConfig
from dovetail.runtime.plan.images import digest_of

if TYPE_CHECKING:  # it makes decisions
    from dovetail.runtime.choice.backend import AutoBackend

log = logging.getLogger("dovetail.auto")

_FOLDER = "auto"
_FORMAT = 1
_MAX_BYTES = 1 << 16
_MAX_FILES = 512  # decisions that are kept
_AFTER_TRIAL = ("power", "measure", "cache")  # options that no time depends on


Milliseconds = Annotated[float, msgspec.Meta(gt=0)]


class Decision(msgspec.Struct, frozen=True):
    """The times of a trial in a file. What they decide is found again, by the rules.

    Attributes:
        format: Number of the form of these files.
        ms: Median milliseconds of an inference, by the name of the plan.
        stopped: Names of the plans that were stopped, since they are much slower.
    """

    format: int
    ms: dict[str, Milliseconds]
    stopped: tuple[str, ...]

    def times(self, plans: Sequence[Plan]) -> Times | None:
        """Return the times; None if they are not those of these plans."""
        names = {plan.name for plan in plans}
        if names != self.ms.keys() | {*self.stopped} or not self.ms:
            return None
        if not all(map(math.isfinite, self.ms.values())):
            return None
        why = "much slower in the trial"
        return Times(dict(self.ms), {name: why for name in self.stopped if name not in self.ms})


class Decisions:
    """The decision for a graph on this machine, if there is one.

    Args:
        path: Its file; None if decisions are not kept.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path

    @classmethod
    def of(
        cls,
        backend: AutoBackend,
        graph: CheckedGraph,
        device: HeteroDeviceConfig,
        config: HeteroGraphConfig,
    ) -> Decisions:
        """Return the decision for a graph.

        Args:
            backend: The backend; its options, its candidates and their fingerprints are in the key.
            graph: The graph.
            device: Settings of the device.
            config: Settings of the graph.
        """
        folder = user_cache(_FOLDER) if backend.options.cache else None
        if folder is None:
            return cls(None)
        try:
            prints = {m.name: m.fingerprint(device).facts for m in backend.members}
        except Exception:
            log.warning("a candidate has no fingerprint; the decision is not kept", exc_info=True)
            return cls(None)
        options = msgspec.to_builtins(backend.options)
        for name in _AFTER_TRIAL:
            del options[name]
        facts = {
            "format": _FORMAT,
            "core": __version__,
            "graph": _graph_digest(graph),
            "options": options,
            "device": msgspec.to_builtins(device),
            "config": msgspec.to_builtins(config),
            "candidates": prints,
            "unusable": [each.backend for each in backend.unusable],
            "machine": machine_facts(),
        }
        key = hashlib.sha256(msgspec.json.encode(facts, order="sorted")).hexdigest()
        return cls(folder / f"{key}.json")

    def read(self, plans: Sequence[Plan]) -> Times | None:
        """Return the times of plans; None if there are none, or the file is damaged."""
        if self.path is None:
            return None
        try:
            data = read_limited(self.path, _MAX_BYTES)
            found = msgspec.json.decode(data, type=Decision, strict=True)
            if found.format != _FORMAT:
                raise ValueError(f"unknown format {found.format}")
        except FileNotFoundError:
            return None
        except (OSError, ValueError, msgspec.DecodeError, RecursionError) as error:
            log.warning("%s is ignored: %s", self.path, error)
            return None
        return found.times(plans)

    def write(self, times: Times) -> None:
        """Write the times; a failure is logged, since it only costs a trial later."""
        if self.path is None:
            return
        decision = Decision(_FORMAT, times.ms, tuple(times.failed))
        try:
            with atomic_write(self.path) as file:
                file.write(msgspec.json.encode(decision))
            _remove_old(self.path.parent)
        except (OSError, DovetailError) as error:
            log.warning("the decision is not kept: %s", error)


def machine_facts() -> dict[str, str]:
    """Return the facts about this machine that times depend on."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "processor": _processor(),
        "architecture": platform.machine(),
        "system": platform.system(),
        "cores": str(cores),
        "host": platform.node(),
    }


def _processor() -> str:
    """Return the name of the processor, from Linux's list where there is one."""
    with suppress(OSError, UnicodeDecodeError):
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor()


def _graph_digest(graph: CheckedGraph) -> str:
    """Return a digest of all of a graph that times depend on: not the values of constants."""
    found = hashlib.sha256(digest_of(graph).encode())
    for view in graph.nodes:
        params = sorted(view.node.params.items())
        found.update(repr([(name, _param(value)) for name, value in params]).encode())
        tensors = (t for t in (*view.node.inputs, *view.node.outputs) if t is not None)
        found.update(repr([(t.kind.name, t.encoding is not None) for t in tensors]).encode())
    visible = ([t.name for t in graph.outputs], sorted(graph.observed.names))
    found.update(repr((visible, graph.observed.everything)).encode())
    return found.hexdigest()


def _param(value: object) -> object:
    return (value.dtype.name, value.shape) if isinstance(value, Tensor) else value


def _remove_old(folder: Path) -> None:
    """Remove the oldest decisions if there are too many."""
    files = []
    for path in folder.glob("*.json"):
        with suppress(OSError):  # removed meanwhile
            files.append((path.stat().st_mtime, path))
    for _, path in sorted(files)[:-_MAX_FILES]:
        path.unlink(missing_ok=True)
