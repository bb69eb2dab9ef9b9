"""Given encodings, bitwidths and float nodes, from an encodings file or the model."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from dovetail.errors import Problem, QuantizationError, listed, suggest_name
from dovetail.ir import DType, Graph, Node, Tensor
from dovetail.ops import OpRegistry
from dovetail.quantization import Difference, QuantizationOptions
from dovetail_quantizers.files import (
    BITWIDTHS,
    EncodingsFile,
    TensorEncoding,
    converted_from,
    read_encodings,
    to_encoding,
)
from dovetail_quantizers.planning.columns import has_moved_columns, put_columns_back
from dovetail_quantizers.planning.divisors import divisor_of
from dovetail_quantizers.planning.encoding_decision import EncodingDecision
from dovetail_quantizers.planning.groups import Claim
from dovetail_quantizers.planning.precision import Float
from dovetail_quantizers.planning.roles import channel_axes
from dovetail_quantizers.planning.rules import is_quantized

GIVEN_BY_MODEL = "given by the model, which was quantized before"
STATED_BY_MODEL = "stated by the float model"
_WHY = "given by the encodings file"
# Maximum number of names in one note.
_SHOWN = 12


def change_of(encoded: EncodingDecision) -> str:
    """Return the kind of the change that gives an activation an encoding of its model."""
    return "stated" if encoded.why == STATED_BY_MODEL else "encoding"


@dataclass(slots=True)
class Overrides:
    """Given decisions on the tensors of one graph.

    Attributes:
        encodings: Types and encodings.
        widths: Bitwidths of tensors without a given encoding.
        floats: Nodes that stay float.
        float_inputs: Inputs of the graph that stay float.
        covered: Names in the user's model with an entry.
        remarks: Notes on tensors.
        changes: Changes of the quantization in the model, if there was one.
        interfaces: Fixed-point tensors that represent integers of the application, or whose
            quantization stays as ops.
        idle: Names of entries for tensors of the model that are not quantized.
        types: Types of results and inputs of the graph, whose encodings are chosen.
        input_types: The same for inputs of nodes, which are converted if need be.
        prescribed: Results that get the encoding that their op prescribes, whatever was given; a
            Convert to the given one follows.
        copies: Encodings of the converted copies of fixed-point tensors by their types, for nodes
            that need these.
    """

    encodings: dict[Tensor, EncodingDecision] = field(default_factory=dict)
    widths: dict[Tensor, int] = field(default_factory=dict)
    floats: dict[Node, Float] = field(default_factory=dict)
    float_inputs: dict[Tensor, int] = field(default_factory=dict)
    covered: set[str] = field(default_factory=set)
    remarks: dict[Tensor, str] = field(default_factory=dict)
    changes: list[Difference] = field(default_factory=list)
    interfaces: list[Tensor] = field(default_factory=list)
    idle: list[str] = field(default_factory=list)
    types: dict[Tensor, DType] = field(default_factory=dict)
    input_types: dict[tuple[Node, int], DType] = field(default_factory=dict)
    prescribed: set[Tensor] = field(default_factory=set)
    copies: dict[tuple[Tensor, DType], EncodingDecision] = field(default_factory=dict)

    def change(self, tensor: Tensor, kind: str, text: str) -> None:
        """Record a change of the model's quantization of a tensor, once."""
        difference = Difference(tensor=tensor.source, kind=kind, text=text)
        if difference not in self.changes:
            self.changes.append(difference)

    @property
    def claims(self) -> Mapping[Tensor, Claim]:
        """The given types, encodings and widths, which tensors that share must agree on."""
        widths = {t: Claim(("width", width)) for t, width in self.widths.items()}
        types = {t: Claim(("type", dtype)) for t, dtype in self.types.items()}
        encodings = {t: Claim((e.dtype, e.encoding), e) for t, e in self.encodings.items()}
        return widths | types | encodings

    @property
    def notes(self) -> list[str]:
        """Notes for the user, one per kind, with names of the user's model."""
        names: dict[str, list[str]] = {}
        for tensor, remark in self.remarks.items():
            names.setdefault(remark, []).append(f"'{tensor.source}'")
        found = [f"weights {listed(them, _SHOWN)} {remark}" for remark, them in names.items()]
        if self.idle:
            idle = listed([f"'{name}'" for name in self.idle], _SHOWN)
            found.append(f"entries without effect, for tensors without float numbers: {idle}")
        return found

    @property
    def given(self) -> frozenset[str]:
        """Names of tensors whose values must not change, because something was given for them."""
        float_results = (t.name for node in self.floats for t in node.outputs)
        said = (t.name for t in (*self.encodings, *self.float_inputs))
        return frozenset((*said, *float_results))

    def under(self, other: Overrides) -> Overrides:
        """Return the union of both; the other takes precedence for a tensor."""
        said = other.encodings.keys() | other.widths.keys()
        return Overrides(
            {t: e for t, e in self.encodings.items() if t not in said} | other.encodings,
            {t: w for t, w in self.widths.items() if t not in said} | other.widths,
            self.floats | other.floats,
            self.float_inputs | other.float_inputs,
            self.covered | other.covered,
            {t: r for t, r in self.remarks.items() if t not in said} | other.remarks,
            [*self.changes, *other.changes],
            [*self.interfaces, *other.interfaces],
            [*self.idle, *other.idle],
            self.types | other.types,
            self.input_types | other.input_types,
            self.prescribed | other.prescribed,
            self.copies | other.copies,
        )

    def in_copy(self, copy: Graph) -> Overrides:
        """Return the decisions for a copy of the graph."""
        nodes = {node.name: node for node in copy.nodes}
        return Overrides(
            {copy.tensor(t.name): e for t, e in self.encodings.items()},
            {copy.tensor(t.name): w for t, w in self.widths.items()},
            {nodes[n.name]: f for n, f in self.floats.items()},
            {copy.tensor(t.name): b for t, b in self.float_inputs.items()},
            set(self.covered),
            types={copy.tensor(t.name): dtype for t, dtype in self.types.items()},
            input_types={(nodes[n.name], i): d for (n, i), d in self.input_types.items()},
            prescribed={copy.tensor(t.name) for t in self.prescribed},
            copies={(copy.tensor(t.name), d): e for (t, d), e in self.copies.items()},
        )

    def uncovered(self, graph: Graph) -> tuple[str, ...]:
        """Return the names in the user's model without an entry."""
        names = dict.fromkeys(t.source for t in graph.tensors.values() if is_quantized(t))
        return tuple(name for name in names if name not in self.covered)


def overrides_for(
    options: QuantizationOptions, graphs: Sequence[Graph]
) -> tuple[EncodingsFile | None, QuantizationOptions]:
    """Return the encodings file of the options, None without one, and the options it completes.

    Args:
        options: The user's options; they get the bitwidths of the file where they set none.
        graphs: The graphs, whose names the file's entries get.

    Raises:
        FrontendError, QuantizationError: The file cannot be read, or has faults.
    """
    if options.quantization_overrides is None:
        return None, options
    file = in_names_of(read_encodings(options.quantization_overrides), graphs)
    said = {BITWIDTHS[key]: bits for key, bits in file.bitwidths.items()}
    unset = {name: bits for name, bits in said.items() if getattr(options, name) is None}
    return file, msgspec.structs.replace(options, **unset)


def in_names_of(file: EncodingsFile, graphs: Sequence[Graph]) -> EncodingsFile:
    """Return a file whose entries have the names of the graphs, with or without ":0"."""
    return file.in_names_of(_names(graphs) | _removed_sources(graphs))


def unmatched(file: EncodingsFile, graphs: Sequence[Graph]) -> list[Problem]:
    """Return a problem for each entry without a tensor in the user's model."""
    text, names = "no tensor of the model has this name", _names(graphs)
    return [
        Problem(text, f"entry '{name}'", suggest_name(name, names))
        for name in unmatched_names(file, graphs)
    ]


def unmatched_names(file: EncodingsFile, graphs: Sequence[Graph]) -> list[str]:
    """Return the names of the entries without a tensor in the user's model."""
    names = {t.name for graph in graphs for t in graph.tensors.values()}
    known = _names(graphs) | _removed_sources(graphs)
    return [
        name
        for name in file.entries
        if name not in known and converted_from(name) not in names and divisor_of(name) not in known
    ]


def without_tensor(file: EncodingsFile, graphs: Sequence[Graph]) -> str:
    """Return a note on the entries for tensors that conversion removes; "" for none."""
    removed_sources = _removed_sources(graphs)
    left = [f"'{name}'" for name in file.entries if name in removed_sources]
    if not left:
        return ""
    return f"entries without effect, for tensors that conversion removes: {listed(left, _SHOWN)}"


def _names(graphs: Sequence[Graph]) -> set[str]:
    """Return the names of the graphs' tensors, here and in the user's model."""
    return {name for graph in graphs for t in graph.tensors.values() for name in (t.name, t.source)}


def _removed_sources(graphs: Sequence[Graph]) -> frozenset[str]:
    """Return the names of the user's model that no graph has."""
    here = {t.source for graph in graphs for t in graph.tensors.values()}
    return frozenset(name for graph in graphs for name in graph.removed_sources) - here


def overrides_of(
    file: EncodingsFile, graph: Graph, ops: OpRegistry, known: Container[str] = ()
) -> Overrides:
    """Return the overrides of a graph from a file.

    Args:
        file: The file.
        graph: Changed if weights have blocks: their columns get the order of the blocks.
        ops: Finds ops.
        known: Names of tensors before quantization was extracted from the graph.

    Raises:
        QuantizationError: Entries do not match their tensors; all of these are listed.
    """
    found = Overrides()
    problems = _put_columns_back(file, graph)  # before tensors are found, since it replaces some
    axes, sources = channel_axes(graph, ops), {t.source for t in graph.tensors.values()}
    own_names = file.entries.keys() - sources  # of tensors that share a source with others
    for entry in file.entries.values():
        named = (t for t in matches(entry, graph) if is_quantized(t))
        tensors = [t for t in named if t.name == entry.name or t.name not in own_names]
        is_of_copy = bool(tensors) and _is_of_copy(entry, file, tensors[0])
        if not tensors and entry.name in known:
            found.idle.append(entry.name)
        for tensor in tensors:
            found.covered.add(tensor.source)
            if entry.form.is_blocked and has_moved_columns(tensor):
                continue  # one of the problems
            try:
                if is_of_copy:
                    copy = _given(entry, tensor, None)
                    found.copies[tensor, copy.dtype] = copy
                else:
                    _take(entry, tensor, graph, axes.get(tensor), found)
            except QuantizationError as error:
                problems.append(error.as_problem())
    if problems:
        raise QuantizationError(
            "encodings do not match the model", where=f"graph '{graph.name}'", problems=problems
        )
    for tensor, own in found.encodings.items():
        # the encoding of a result is that of its copy if its op prescribes another one
        found.encodings[tensor] = found.copies.pop((tensor, own.dtype), own)
    return found


def _put_columns_back(file: EncodingsFile, graph: Graph) -> list[Problem]:
    """Restore the columns of weights that get blocks; return why that fails for some."""
    problems: list[Problem] = []
    for entry in file.entries.values():
        if not entry.form.is_blocked:
            continue
        for tensor in filter(has_moved_columns, matches(entry, graph)):
            try:
                put_columns_back(graph, tensor)
            except QuantizationError as error:
                problems.append(error.as_problem())
    return problems


def matches(entry: TensorEncoding, graph: Graph) -> list[Tensor]:
    """Return the tensors of a graph that an entry of a file describes."""
    named = [t for t in graph.tensors.values() if t.source == entry.name]
    if not named and entry.name in graph.tensors:
        named = [graph.tensors[entry.name]]
    read = graph.tensors.get(converted_from(entry.name))
    if not named and read is not None and entry.kind == "int":
        named = [read]
    # a folded bias has the name of the output that it was folded from
    of_kind = [t for t in named if t.kind.is_static == bool(entry.is_param)]
    if entry.is_param is not None and of_kind:
        named = of_kind
    elif entry.is_param is None and any(not t.kind.is_static for t in named):
        named = [t for t in named if not t.kind.is_static]
    return named


def _is_of_copy(entry: TensorEncoding, file: EncodingsFile, tensor: Tensor) -> bool:
    """Return whether an entry describes the converted copy of a fixed-point tensor."""
    if entry.name in (tensor.name, tensor.source) or not converted_from(entry.name):
        return False
    own = file.entries.get(tensor.source) or file.entries.get(tensor.name)
    return own is not None and own.kind == "int" and not entry.is_open


def _take(
    entry: TensorEncoding, tensor: Tensor, graph: Graph, axis: int | None, found: Overrides
) -> None:
    if entry.kind == "float":
        _take_float(entry, tensor, graph, found)
    elif entry.is_open or entry.is_derived:
        found.widths[tensor] = entry.bitwidth
    else:
        found.encodings[tensor] = _given(entry, tensor, axis)


def _given(entry: TensorEncoding, tensor: Tensor, axis: int | None) -> EncodingDecision:
    dtype, encoding = to_encoding(entry, tensor, axis)
    return EncodingDecision(dtype, encoding, _WHY)


def _take_float(entry: TensorEncoding, tensor: Tensor, graph: Graph, found: Overrides) -> None:
    bitwidth = 16 if entry.bitwidth == 16 else 32
    chosen = Float(bitwidth, f"the encodings file sets float for '{entry.name}'")
    keep_float(tensor, graph, chosen, found)


def keep_float(tensor: Tensor, graph: Graph, chosen: Float, found: Overrides) -> None:
    """Record that a tensor stays float, and so the nodes that go with it."""
    producer = graph.producer(tensor)
    if producer is not None:
        found.floats[producer] = chosen
    elif tensor.kind.is_static:
        # output, weights and bias of a node go together
        found.floats |= dict.fromkeys(graph.consumers(tensor), chosen)
    else:
        found.float_inputs[tensor] = chosen.bitwidth
