"""Recording of all calls of the runtime API, by the installed recorder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, cast

from dovetail.plugins import load

GROUP = "dovetail.recorders"
DEFAULT = "default"


class Recorder(Protocol):
    """Records from its creation on until it is closed."""

    def __init__(self, folder: str | os.PathLike[str], payloads: str) -> None: ...

    def close(self) -> None:
        """End the trace; a second call does nothing."""


@contextmanager
def record(folder: str | os.PathLike[str], *, payloads: str = "all") -> Iterator[None]:
    """Record all calls of the runtime API in a `with` block.

    If the trace cannot be continued, the log says so and the block goes on.

    Args:
        folder: The folder of the trace, new or empty.
        payloads: The payloads that are kept: `all`, `inputs` (no outputs), `outputs-hash` (hashes
            of outputs only) or `none`.

    Raises:
        PluginError: No recorder is installed.
        ConfigError: The value of `payloads` is unknown.
        ConfigError: The folder is in use.
        ContainerError: It cannot be written.
    """
    recorder = cast("type[Recorder]", load(GROUP, DEFAULT))(folder, payloads)
    try:
        yield
    finally:
        recorder.close()
