"""Recording of the calls of this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from dovetail.plugins.hooks import hooks
from dovetail.runtime.calls import CallRecorder
from dovetail_saver.trace import Header, PayloadPolicy, TraceWriter


@contextmanager
def record(
    folder: str | os.PathLike[str], payloads: PayloadPolicy = PayloadPolicy.ALL
) -> Iterator[None]:
    """Record all calls of the runtime API in a `with` block.

    Args:
        folder: The folder of the trace, new or empty.
        payloads: The payloads that are kept.

    Raises:
        TraceError: The folder is in use.
        ContainerError: It cannot be written.
    """
    with TraceWriter(folder, Header.current(payloads)) as writer:
        recorder = CallRecorder(writer.write, writer.payloads)
        with hooks.registered(recorder):
            yield
