"""The header of a trace: `trace.json`."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path

import msgspec

from dovetail.errors import TraceError
from dovetail.plugins import GROUPS, list_plugins
from dovetail_saver.choices import PayloadPolicy
from dovetail_saver.trace.members import open_member

FORMAT = "dovetail-trace"
VERSION = 1
MINOR = 0
KNOWN: frozenset[str] = frozenset()  # additions of minor versions that a file can require

HEADER_NAME = "trace.json"
CALLS_NAME = "calls.jsonl"
PAYLOADS_NAME = "params.bin"

_MAX_BYTES = 1 << 20


class Host(msgspec.Struct, frozen=True):
    """The machine that a trace was recorded on.

    Attributes:
        system: Name of its operating system.
        machine: Name of its instruction set.
        python: Version of Python.
    """

    system: str = ""
    machine: str = ""
    python: str = ""

    @classmethod
    def current(cls) -> Host:
        """Return the description of this machine."""
        return cls(platform.system(), platform.machine(), platform.python_version())


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """Content of `trace.json`.

    Attributes:
        format: The name of the format.
        version, minor: Its version; a reader rejects a newer `version`.
        requires: Names of additions of minor versions that a reader must know.
        producer: The program that wrote the trace, and its version.
        payloads: The payloads that it keeps.
        backends: Names of the backends in use; known when the trace is closed.
        plugins: Versions of the installed dists with plugins.
        host: The machine.
    """

    format: str = FORMAT
    version: int = VERSION
    minor: int = MINOR
    requires: tuple[str, ...] = ()
    producer: str = ""
    payloads: PayloadPolicy = PayloadPolicy.ALL
    backends: tuple[str, ...] = ()
    plugins: dict[str, str] = {}  # copied for each header by msgspec
    host: Host = Host()

    @classmethod
    def current(cls, payloads: PayloadPolicy = PayloadPolicy.ALL) -> Header:
        """Return the header of a trace that this process writes."""
        found = [plugin for group in GROUPS for plugin in list_plugins(group)]
        return cls(
            producer=f"dovetail-saver {version('dovetail-saver')}",
            payloads=payloads,
            plugins={plugin.dist: plugin.version for plugin in found if plugin.dist},
            host=Host.current(),
        )


_DECODER = msgspec.json.Decoder(Header)


def decode_header(data: bytes, where: str) -> Header:
    """Return a header.

    Raises:
        TraceError: It is not one, or of a version that this reader does not know.
    """
    try:
        found = _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise TraceError(f"not the header of a trace: {error}", where=where) from error
    if found.format != FORMAT:
        raise TraceError("not the header of a trace: another format", where=where)
    missing = sorted(set(found.requires) - KNOWN)
    if found.version != VERSION or missing:
        needs = f", which requires {', '.join(missing)}" if missing else ""
        raise TraceError(
            f"trace format {found.version}.{found.minor}{needs}; "
            f"this version reads {VERSION}.{MINOR} and older 1.x",
            where=where,
            hint="upgrade dovetail-saver",
        )
    return found


def read_header(folder: Path) -> Header:
    """Return the header of a trace.

    Raises:
        TraceError: Its file cannot be read, or is not a header.
    """
    where = str(folder / HEADER_NAME)
    with open_member(folder, HEADER_NAME) as file:
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise TraceError(f"the header exceeds {_MAX_BYTES} bytes", where=where)
    return decode_header(data, where)
