"""Mutated traces: their lines and files, changed, moved and replaced; read, verified and played."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import chdir
from pathlib import Path
from random import Random

from dovetail.errors import DovetailError, TraceError
from dovetail.runtime.calls import InstalledResolver, Player
from dovetail_saver.trace import OpaqueRecord, Trace
from dovetail_saver.trace.header import CALLS_NAME, HEADER_NAME, PAYLOADS_NAME
from dovetail_saver.verifying import verify
from fuzz.containers import change
from fuzz.damage import damage
from fuzz.mutation import Mutated
from fuzz.seeds import Seed
from fuzz.trial import FaultError

_CORPUS = Path(__file__).parents[2] / "plugins" / "saver" / "tests" / "corpus"
_NAMES = (HEADER_NAME, CALLS_NAME, PAYLOADS_NAME)
_BETWEEN = b"\n--- file ---\n"  # a mutated file has all files of a trace
_LINK, _FIFO, _FOLDER, _NOTHING = b"--- link", b"--- fifo", b"--- folder", b"--- nothing"
_ODD = 0.1  # share of traces with a file that is not one
_MOST_BYTES = 1 << 24  # of an array that is played

Lines = list[bytes]


def trace_seeds() -> list[Seed]:
    """Return the traces of the corpus."""
    found = sorted(path.parent for path in _CORPUS.glob(f"*/*/{HEADER_NAME}"))
    return [
        Seed(
            f"{path.parent.name}/{path.name}",
            _BETWEEN.join((path / n).read_bytes() for n in _NAMES),
        )
        for path in found
    ]


def mutate_trace(seeds: Sequence[Seed], run: int, number: int) -> Mutated:
    """Return the files of a trace."""
    random = Random(f"{run}:{number}")
    seed = seeds[random.randrange(len(seeds))]
    files = seed.data.split(_BETWEEN)
    how = []
    for _ in range(random.choice((1, 1, 1, 2, 3, 5))):
        mutation = random.choice(_MUTATIONS)
        lines = files[1].split(b"\n")
        mutation(lines, random)
        files[1] = b"\n".join(lines)
        how.append(mutation.__name__.strip("_"))
    if random.random() < 0.15:
        which = random.randrange(3)
        files[which] = damage(files[which], random)
        how.append(f"bytes of {_NAMES[which]}")
    if random.random() < 0.1:
        files[0] = _changed(files[0], random)
        how.append("header")
    if random.random() < _ODD:
        which, odd = random.randrange(3), random.choice((_LINK, _FIFO, _FOLDER, _NOTHING))
        files[which] = odd
        how.append(f"{odd.decode()} as {_NAMES[which]}")
    return Mutated(seed.name, tuple(how), _BETWEEN.join(files))


def read_trace(path: Path) -> None:
    """Read, verify and play a trace.

    Raises:
        TraceError: The trace is rejected.
        FaultError: Another error was raised, or a file was written.
    """
    root, folder = path.parent, path.with_suffix("")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, data in zip(_NAMES, path.read_bytes().split(_BETWEEN), strict=False):
        _write(folder / name, data)
    before = set(root.iterdir())
    try:
        with chdir(root):
            failure = _first_error((_iterate, _verify, _play), folder)
        if written := set(root.iterdir()) - before:
            raise FaultError(f"files were written: {sorted(map(str, written))[:3]}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if failure is not None:
        raise failure


def _first_error(steps: Iterable[Callable[[Path], None]], folder: Path) -> TraceError | None:
    """Take all steps, and return the first rejection.

    Raises:
        FaultError: A step raised another error.
    """
    first: TraceError | None = None
    for step in steps:
        try:
            step(folder)
        except TraceError as error:
            str(error).encode()  # a command prints it
            first = first or error
        except DovetailError as error:
            raise FaultError(f"{step.__name__}: another error: {error}") from error
    return first


def _iterate(folder: Path) -> None:
    trace = Trace(folder)
    trace.count()
    for entry in trace:
        for key in getattr(entry.record, "payloads", ()):
            blob = trace.payloads.get(key)
            if blob is not None and blob.nbytes <= _MOST_BYTES:
                blob.bytes.sum()


def _verify(folder: Path) -> None:
    verify(folder)


def _play(folder: Path) -> None:
    trace = Trace(folder)
    with Player(trace.payloads, InstalledResolver(), _MOST_BYTES) as player:
        for entry in trace:
            if not isinstance(entry.record, OpaqueRecord):
                player.play(entry.record, entry.where)


def _write(path: Path, data: bytes) -> None:
    if data == _LINK:
        path.symlink_to("../../secret.bin")
    elif data == _FIFO:
        os.mkfifo(path)
    elif data == _FOLDER:
        path.mkdir()
    elif data != _NOTHING:
        path.write_bytes(data)


# -- mutations of lines --------------------------------------------------------------------------


def _swapped(lines: Lines, random: Random) -> None:
    i, k = (random.randrange(len(lines)) for _ in range(2))
    lines[i], lines[k] = lines[k], lines[i]


def _moved(lines: Lines, random: Random) -> None:
    line = lines.pop(random.randrange(len(lines)))
    lines.insert(random.randint(0, len(lines)), line)


def _doubled(lines: Lines, random: Random) -> None:
    lines.insert(random.randint(0, len(lines)), random.choice(lines))


def _removed(lines: Lines, random: Random) -> None:
    if len(lines) > 1:
        del lines[random.randrange(len(lines))]


def _cut(lines: Lines, random: Random) -> None:
    i = random.randrange(len(lines))
    lines[i] = lines[i][: random.randint(0, len(lines[i]))]
    if random.random() < 0.5:
        del lines[i + 1 :]
        lines[i] += bytes(random.choice((0, 10, 5000)))


def _altered(lines: Lines, random: Random) -> None:
    i = random.randrange(len(lines))
    lines[i] = _changed(lines[i], random)


def _crossed(lines: Lines, random: Random) -> None:
    """Let a record have a part of another."""
    i, k = (random.randrange(len(lines)) for _ in range(2))
    try:
        one, other = json.loads(lines[i]), json.loads(lines[k])
        key = random.choice(sorted(other))
        one[key] = other[key]
        lines[i] = json.dumps(one).encode()
    except (ValueError, TypeError, IndexError, RecursionError):
        pass


def _renumbered(lines: Lines, random: Random) -> None:
    """Replace a number everywhere: a handle, an index, a size."""
    old = str(random.randrange(60)).encode()
    new = str(random.choice((0, 1, 7, 60, 2**31, 2**62, 2**64, -1))).encode()
    i = random.randrange(len(lines))
    lines[i] = lines[i].replace(b":" + old, b":" + new).replace(b"[" + old, b"[" + new)


def _nested(lines: Lines, random: Random) -> None:
    i, depth = random.randrange(len(lines)), random.choice((10, 2000, 100_000))
    value = b"[" * depth + b"]" * depth
    lines[i] = (
        lines[i].replace(b"null", value, 1).replace(b'"config":{', b'"config":{"a":' + value, 1)
    )


def _named(lines: Lines, random: Random) -> None:
    """Name other files, ops, backends and packages."""
    i = random.randrange(len(lines))
    new = random.choice(
        (b"../../secret.bin", b"/etc/passwd", b"cpu", b"saver", b"hetero:saver,cpu", b"x" * 100_000)
    )
    for old in (b"qti.aisw", b"cpu", b"saver", b"graphs", b"Relu", b"not.installed"):
        if b'"' + old + b'"' in lines[i]:
            lines[i] = lines[i].replace(b'"' + old + b'"', b'"' + new + b'"')
            return


def _changed(text: bytes, random: Random) -> bytes:
    try:
        document = json.loads(text)
        change(document, random)
        return json.dumps(document).encode(errors="replace")
    except (ValueError, IndexError, RecursionError):
        return damage(text, random)


_MUTATIONS: tuple[Callable[[Lines, Random], None], ...] = (
    *(_swapped, _moved, _doubled, _removed, _cut, _crossed, _renumbered, _nested, _named),
    *(_altered,) * 4,
)
