"""DLC files, mutated so that the mutations reach their tables, and their trial."""

from __future__ import annotations

import dataclasses
import io
import struct
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import dovetail
from dovetail.errors import DovetailError, GraphError, UnsupportedOpError
from dovetail.ir import Graph, Tensor
from dovetail_qnn import QnnCppOptions
from dovetail_qnn.dlc import DlcExporter, DlcFrontend
from dovetail_qnn.dlc._streams import pack_stream
from dovetail_qnn.dlc._tables import GRAPHS, PARAMS, ModelTable, PayloadsTable
from dovetail_qnn.dlc.flatbuffers import FaultList, decode, encode
from fuzz import trial
from fuzz.converter_files import small_graph
from fuzz.damage import damage
from fuzz.mutation import Mutated
from fuzz.seeds import Seed

_WHOLE = 0.15  # share of mutations of the archive, which know nothing of the format
_PREFIX = 8
_TABLES = {"model": (ModelTable, GRAPHS), "model.params": (PayloadsTable, PARAMS)}
_WORDS = (0, 1, 4, 8, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 8, 2**32 - 1)
_NUMBERS = (0, 1, 2, 3, 4, 5, 7, 64, 0x232, 0x308, 0x404, 0x408, 0x508, 2**31 - 1, -1, -(2**31))
_TEXTS = ("", "x", "y", "w", "\0", "Pool", "Neuron", "Eltwise_Unary", "qti.aisw", "ä" * 300)


def dlc_seeds() -> list[Seed]:
    """Return a quantized convolution, and one with ops of another package."""
    return [Seed("conv", _exported(False)), Seed("packages", _exported(True))]


def _exported(is_odd: bool) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.dlc"
        DlcExporter().export(small_graph(is_odd), path, QnnCppOptions())
        return path.read_bytes()


def mutate_dlc(seeds: Sequence[Seed], run: int, number: int) -> Mutated:
    """Return a file; most have sound archives and damaged members."""
    random = Random(f"{run}:{number}")
    seed = seeds[random.randrange(len(seeds))]
    if random.random() < _WHOLE:
        return Mutated(seed.name, ("archive",), damage(seed.data, random))
    with zipfile.ZipFile(io.BytesIO(seed.data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    how = []
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        mutation = random.choice(_MUTATIONS)
        name = random.choice(("model", "model", "model", "model.params"))
        with suppress(struct.error, UnicodeError):  # a value that its field cannot have
            members[name] = mutation(name, members[name], random)
        how.append(f"{mutation.__name__.strip('_')} of {name}")
    if random.random() < 0.1:
        members.pop(random.choice(list(members)))
    return Mutated(seed.name, tuple(how), _packed(members, random))


def _packed(members: Mapping[str, bytes], random: Random) -> bytes:
    how = random.choice((zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", how) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data, how)
    return out.getvalue()


def read_mutated_dlc(path: Path) -> None:
    """Convert a file; where it is read, what is written again must be the same.

    Raises:
        DovetailError: The file is rejected.
        FaultError: The file differs after an export.
    """
    graphs = DlcFrontend().read(path)
    for graph in graphs:
        for tensor in (*graph.tensors.values(), *_params(graph)):
            if tensor.data is not None:
                _ = tensor.data.bytes  # a CRC is checked when a payload is first used
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        for graph in graphs:
            first, second = Path(folder) / "first.dlc", Path(folder) / "second.dlc"
            try:
                DlcExporter().export(graph, first, QnnCppOptions())
                (found,) = DlcFrontend().read(first)
                DlcExporter().export(found, second, QnnCppOptions())
            except UnsupportedOpError:
                continue  # a param with the name of a family's attribute
            except DovetailError as error:
                raise trial.FaultError(f"a graph that was read is not written: {error}") from error
            if first.read_bytes() != second.read_bytes():
                raise trial.FaultError("the file differs after export and import")
    with suppress(GraphError):  # a node that does not match its op
        dovetail.convert(path, input_format="dlc")


def _params(graph: Graph) -> Iterator[Tensor]:
    params = (param for node in graph.nodes for param in node.params.values())
    return (param for param in params if isinstance(param, Tensor))


# -- mutations -----------------------------------------------------------------------------------


def _bytes(_: str, data: bytes, random: Random) -> bytes:
    return data[:_PREFIX] + damage(data[_PREFIX:], random)


def _word(_: str, data: bytes, random: Random) -> bytes:
    """Set an offset, a length or a number to an extreme, or to another of the stream."""
    found = bytearray(data)
    size, form = random.choice(((4, "<I"), (4, "<I"), (2, "<H")))
    at = size * random.randrange(_PREFIX // size, len(data) // size)
    other = size * random.randrange(_PREFIX // size, len(data) // size)
    value = random.choice((*_WORDS, struct.unpack_from(form, data, other)[0], at, len(data) - at))
    struct.pack_into(form, found, at, value % (1 << 8 * size))
    return bytes(found)


def _table(name: str, data: bytes, random: Random) -> bytes:
    """Change one field of a table, in tables that stay sound."""
    declared, identifier = _TABLES[name]
    root: Any = decode(memoryview(data)[_PREFIX:], declared, name, FaultList())
    spots = list(_spots(root))
    at = random.randrange(len(spots))
    return pack_stream(encode(_changed(root, spots[at], spots, random), identifier))


Spot = tuple[tuple[tuple[str, int], ...], str]  # fields and indices to a table, and its field


def _spots(table: Any, way: tuple[tuple[str, int], ...] = ()) -> Iterator[Spot]:
    for field in dataclasses.fields(table):
        yield way, field.name
        value = getattr(table, field.name)
        inner = value if isinstance(value, tuple) else (value,)
        for index, each in enumerate(inner):
            if dataclasses.is_dataclass(each):
                yield from _spots(each, (*way, (field.name, index)))


def _changed(root: Any, spot: Spot, spots: Sequence[Spot], random: Random) -> Any:
    way, name = spot
    if way:
        (field, index), *rest = way
        old = getattr(root, field)
        inner = old[index] if isinstance(old, tuple) else old
        new = _changed(inner, (tuple(rest), name), spots, random)
        whole = (*old[:index], new, *old[index + 1 :]) if isinstance(old, tuple) else new
        return dataclasses.replace(root, **{field: whole})
    return dataclasses.replace(root, **{name: _other(getattr(root, name), random)})


def _other(value: Any, random: Random) -> Any:
    if isinstance(value, float):
        return random.choice((0.0, -1.0, 1e38, float("inf"), float("nan"), 1e-40))
    if isinstance(value, int):
        return random.choice(_NUMBERS)
    if isinstance(value, str):
        return random.choice((*_TEXTS, None))
    if isinstance(value, tuple):
        kept = list(value)
        random.shuffle(kept)
        return random.choice((value[:-1], value * 2, (), tuple(kept), value[:1] * 70))
    return None


_MUTATIONS: tuple[Callable[[str, bytes, Random], bytes], ...] = (
    _bytes,
    _word,
    _word,
    _table,
    _table,
    _table,
)
