"""Construction of the graph node by node, collecting every problem on the way."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto
from onnx.helper import make_tensor_value_info

from dovetail.errors import DovetailError, FrontendError, OpError, Problem, UnsupportedOpError
from dovetail.ir import Graph, Spec, Tensor, TensorKind
from dovetail_onnx._checker import NodeChecker
from dovetail_onnx._context import OpContext
from dovetail_onnx._control import REPLACED, read_replaced
from dovetail_onnx._dtypes import ELEMENT_TYPES, PACKED
from dovetail_onnx._fold import Folded, can_fold, fold
from dovetail_onnx._four_bits import check_reads, output_type
from dovetail_onnx._functions import all_nodes
from dovetail_onnx._inputs import dims_of
from dovetail_onnx._source import SourceGraph, SourceNode, source_node
from dovetail_onnx._subgraph_node import Apart
from dovetail_onnx._survey import NOTHING, OperatorMatch, Survey, look_up
from dovetail_onnx._tables import Tables
from dovetail_onnx._tensors import TensorReader
from dovetail_onnx._value_info import DeclaredSpecs
from dovetail_onnx._values import OnnxValues
from dovetail_opset.importing.budget import Budget
from dovetail_opset.importing.constant import Constant, Result, Value, as_value
from dovetail_opset.importing.forms import FormBudget
from dovetail_opset.importing.outputs import finish_graph, warn_of_shapes
from dovetail_opset.importing.problems import UnsupportedNode, problems_of, unsupported_nodes

_LOG = logging.getLogger("dovetail.importing")

# Maximum number of nodes of a model's unrolled loops: some seconds.
MAX_BODY_NODES = 10_000
# The same with nested subgraphs, which are copied even if they never run.
MAX_COPIED_NODES = 10 * MAX_BODY_NODES

_RESULT = (Tensor, Constant, np.ndarray)


class GraphReader:
    """Builds one graph.

    Args:
        source: The model, cut to what its outputs depend on.
        specs: Types and shapes of its inputs.
        survey: How each node is converted.
        tensors: Reads its constants.
        tables: The importers.
        file_bytes: Size of the model file, without external data.
        updateable: Names of the initializers that become UPDATEABLE_STATIC tensors.

    Attributes:
        unsupported: Nodes that cannot be converted.
        invalid: Errors of the model.
        form_budget: What may still be computed to recognize loops.
    """

    def __init__(
        self,
        source: SourceGraph,
        specs: Mapping[str, Spec],
        survey: Survey,
        tensors: TensorReader,
        tables: Tables,
        file_bytes: int,
        updateable: Sequence[str] = (),
    ) -> None:
        self._source = source
        self._file_bytes = file_bytes
        self._specs = specs
        self._survey = survey
        self._graph = Graph(source.name)
        self._budget = Budget(lambda: file_bytes + tensors.mapped_bytes, len(source.nodes))
        declared = DeclaredSpecs(source, specs)
        self._values = OnnxValues(source, tensors, self._graph, declared, self._budget, updateable)
        self._values.batch = _changed_batch(source, specs)
        self._tables = tables
        self._makers = {name: node for node in source.nodes for name in node.outputs if name}
        self._read_names = {n for node in source.nodes for n in node.reads}
        self._wanted = self._read_names | set(source.outputs)
        self._body_nodes = self._copied_nodes = 0
        self.form_budget = FormBudget()
        self._folded: Folded = {}
        self._sequences: dict[str, tuple[str, ...]] = {}
        self._checker = NodeChecker(source.ir_version)
        self.unsupported: list[UnsupportedNode] = list(survey.unsupported)
        self.invalid: list[Problem] = list(survey.malformed.values())
        for name, spec in specs.items():
            made = Tensor(name, spec.dtype, spec.shape, TensorKind.APP_WRITE)
            code = source.inputs[name].type.tensor_type.elem_type
            self._set(name, self._graph.add_tensor(made), code)

    def run(self) -> Graph:
        """Return the graph, which is complete only if there are no problems."""
        for node in self._source.nodes:
            found = self._survey.found.get(node.name)
            if found is not None and node.name not in self._survey.malformed:
                self._try(node, found)
        self.unsupported += self._sequence_outputs()
        if not self.unsupported and not self.invalid:
            self._finish()
        return self._graph

    def _sequence_outputs(self) -> Iterator[UnsupportedNode]:
        for name in self._source.outputs:
            if name in self._sequences:
                why = f"output '{name}' of the model is a sequence; expected a tensor"
                hint = "join the sequence in the model, or name its elements with --out-name"
                yield UnsupportedNode(self._makers[name], 0, why, hint)

    def needed_inputs(self) -> tuple[str, ...]:
        """Return the inputs whose values unsupported nodes need, in the model's order."""
        return self._inputs_of(each.needs for each in self.unsupported if each.needs)

    def _inputs_of(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the inputs from which values are computed, in the model's order."""
        waiting = list(names)
        seen: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name in seen or isinstance(self._values.get(name), Constant):
                continue
            seen.add(name)
            if name in self._makers:
                waiting += self._makers[name].reads
        return tuple(name for name in self._source.inputs if name in seen)

    # -- subgraphs: see `_subgraph_node.Reader` ----------------------------------------------------

    def read_body(self, nodes: Sequence[NodeProto], outputs: Iterable[str], by: SourceNode) -> bool:
        """Read the nodes of a subgraph in place of the node that contains it.

        Args:
            nodes: The nodes, under names that no others have.
            outputs: Those of their tensors that are used.
            by: The node that contains them.

        Returns:
            Whether all nodes are supported and valid.

        Raises:
            UnsupportedOpError: The model would grow too large.
        """
        self._check_copies(nodes, by)
        before = len(self.unsupported), len(self.invalid)
        opsets = self._source.opsets
        made = [source_node(proto, proto.name, opsets, by.sources) for proto in nodes]
        self._makers |= {name: node for node in made for name in node.outputs if name}
        read = {name for node in made for name in node.reads}
        self._read_names |= read
        self._wanted |= read | set(outputs)
        for node in made:
            found = look_up(node, self._tables)
            if isinstance(found, UnsupportedNode) and self._folds(node):
                found = OperatorMatch(found.version, None)
            problem = self._body_fault(node, found)
            if problem is not None:
                self.invalid.append(problem)
            elif isinstance(found, UnsupportedNode):
                self.unsupported.append(found)
            else:
                self._try(node, found)
        return before == (len(self.unsupported), len(self.invalid))

    def read_apart(
        self,
        graph: GraphProto,
        inputs: Mapping[str, Spec],
        constants: Mapping[str, Constant],
        by: SourceNode,
    ) -> Apart:
        """Read a subgraph in a graph of its own; its problems stay there.

        Args:
            graph: The subgraph.
            inputs: Its inputs.
            constants: What it reads besides them and its own constants.
            by: The node that contains it.

        Returns:
            The graph, and the values of the outputs.
        """
        names = [output.name for output in graph.output]
        infos = {
            name: make_tensor_value_info(name, ELEMENT_TYPES[spec.dtype], spec.shape)
            for name, spec in inputs.items()
        }
        source = replace(
            self._source, nodes=(), inputs=infos, outputs=(), initializers={}, declared={}
        )
        tensors = self._values.reader
        reader = GraphReader(source, inputs, NOTHING, tensors, self._tables, self._file_bytes)
        for name, constant in constants.items():
            reader.set(name, constant)
        try:
            for proto in graph.initializer:
                reader.set_initializer(proto.name, proto)
            done = reader.read_body(graph.node, names, by)
        except DovetailError:  # not lost: the iterations, read instead, raise it
            done = False
        return Apart(reader._graph, [reader.value(name) if done else None for name in names])

    def _check_copies(self, nodes: Sequence[NodeProto], by: SourceNode) -> None:
        """Raise if unrolled loops exceed the limits, as a few nested ones may."""
        self._body_nodes += 1 + len(nodes)
        self._copied_nodes += sum(1 for _ in all_nodes(nodes))
        limits = (self._body_nodes, MAX_BODY_NODES), (self._copied_nodes, MAX_COPIED_NODES)
        for found, most in limits:
            if found > most:
                raise UnsupportedOpError(
                    f"unrolled, the loops have more than {most} nodes",
                    where=by.where,
                    hint="leave the loop to the application, and convert its body",
                )
        self._claim(sum(node.ByteSize() for node in nodes), by.where)

    def _claim(self, nbytes: int, where: str) -> None:
        """Count the nodes copied and the tensors read for one iteration of a loop."""
        if not self._budget.has(2 * nbytes, 0):
            raise FrontendError(
                "unrolled, the loops have more constants than the size of the model explains",
                where=where,
                hint="make constants that are the same in all iterations initializers of the model",
            )

    def _body_fault(
        self, node: SourceNode, found: OperatorMatch | UnsupportedNode
    ) -> Problem | None:
        """Return the fault of a node of a subgraph; subgraphs are not checked before."""
        for name in filter(None, node.outputs):
            if self.is_known(name) or name in self._graph.tensors:
                return Problem(f"output '{name}' is defined already", node.where)
        return self._checker.fault(node, converted=isinstance(found, OperatorMatch))

    def is_sound(self, graph: GraphProto) -> bool:
        """Return whether all nodes of a subgraph are supported, valid and sorted.

        One with subgraphs of its own is not.
        """
        known = {i.name for i in graph.input} | {t.name for t in graph.initializer}
        if len(known) < len(graph.input) + len(graph.initializer):
            return False
        for proto in graph.node:
            node = source_node(proto, proto.name or proto.op_type, self._source.opsets)
            if not isinstance(look_up(node, self._tables), OperatorMatch) and not can_fold(node):
                return False
            if node.has_subgraphs or self._checker.fault(node, converted=True) is not None:
                return False
            if any(name not in known and not self.is_known(name) for name in node.reads):
                return False
            written = {name for name in node.outputs if name}
            if not known.isdisjoint(written):
                return False
            known |= written
        return all(o.name in known or self.is_known(o.name) for o in graph.output)

    def fresh(self, name: str) -> str:
        """Return a name like this that the model does not have."""
        return self._values.fresh(name)

    def value(self, name: str) -> Value | None:
        """Return a value; None if it is not known."""
        return self._values.get(name)

    def set(self, name: str, value: Value) -> None:
        """Store a value under its name."""
        self._values.set(name, value)

    def is_known(self, name: str) -> bool:
        """Return whether a name is that of a value or a sequence."""
        return name in self._sequences or self._values.get(name) is not None

    def depends_on_numbers(self, name: str) -> bool:
        """Return whether a value is computed from inputs of the model that are real numbers."""
        return any(self._specs[i].dtype.is_float for i in self._inputs_of([name]))

    def alias(self, name: str, other: str) -> None:
        """Store a value or sequence, if it is known, under another name."""
        if other in self._sequences:
            self._sequences[name] = self._sequences[other]
        elif (value := self._values.get(other)) is not None:
            self._values.set(name, value)

    def sequence(self, name: str) -> tuple[str, ...] | None:
        """Return the names of a sequence's elements; None if it is none."""
        return self._sequences.get(name)

    def set_sequence(self, name: str, elements: Sequence[str]) -> None:
        """Store the names of a sequence's elements under its name."""
        self._sequences[name] = tuple(elements)

    def set_initializer(self, name: str, proto: TensorProto) -> None:
        """Store a constant of a subgraph under its name."""
        self._claim(proto.ByteSize(), f"tensor '{name}'")
        self._values.set(name, self._values.reader.read(proto, name))

    def _folds(self, node: SourceNode) -> bool:
        ins = [self._values.get(name) for name in node.inputs if name]
        return can_fold(node) and all(isinstance(value, Constant) for value in ins)

    # ----------------------------------------------------------------------------------------------

    def _try(self, node: SourceNode, found: OperatorMatch) -> None:
        """Read a node and record its problems."""
        try:
            self._read(node, found)
        except UnsupportedOpError as error:
            self.unsupported += unsupported_nodes(node, found.version, error)
        except (FrontendError, OpError) as error:
            if error.code in ("MODEL_EXTERNAL_DATA", "FILE_UNREADABLE"):
                raise
            self.invalid += problems_of(node, error)

    def _read(self, node: SourceNode, found: OperatorMatch) -> None:
        values = {name: self._values.get(name) for name in node.reads}
        ins = {name: value for name, value in values.items() if value is not None}
        others = [name for name in values if name not in ins]
        if any(name not in self._sequences for name in others):
            return  # a node that depends on an unsupported one
        if found.importer is None and node.domain == "" and node.op_type in REPLACED:
            read_replaced(node, self)
            return
        if others:
            self._read_sequence(node, others[0])
            return
        constants = {name: v for name, v in ins.items() if isinstance(v, Constant)}
        packed = {name: self._values.packed(value) for name, value in ins.items()}
        check_reads(node, packed)
        if len(constants) == len(ins) and can_fold(node):
            version, known = self._source.ir_version, self._folded
            results = fold(node, constants, version, self._budget, known)
            if results is not None:
                for result in results:
                    self._values.set(result.name, result)
                return
        if found.importer is None:
            raise UnsupportedOpError("the node can be neither computed at import nor converted")
        context = OpContext(node, found.version, self._values, self._wanted, self._read_names)
        given = found.importer(context)
        self._keep(node, given, output_type(node, packed))

    def _read_sequence(self, node: SourceNode, name: str) -> None:
        """Read a node that has a sequence as input: an Identity."""
        if node.full_type != "Identity":
            raise FrontendError(f"input '{name}' is a sequence; expected a tensor")
        self.alias(node.outputs[0], name)

    def _keep(
        self, node: SourceNode, given: Result | Sequence[Result | None], packed: int | None
    ) -> None:
        results = [given] if isinstance(given, _RESULT) else given
        if not self._wanted.isdisjoint(node.outputs[len(results) :]):
            raise FrontendError(
                f"the node has {len(node.outputs)} outputs, but the operator has {len(results)}"
            )
        for name, result in zip(node.outputs, results, strict=False):
            if name and result is not None:
                self._set(name, as_value(result, name), packed)

    def _set(self, name: str, value: Value, code: int | None) -> None:
        """Store a value, of an element type of 4 bits or any other."""
        if code is not None and PACKED.get(code) is value.dtype:
            value = self._values.as_packed(value, code)
        self._values.set(name, value)

    def _finish(self) -> None:
        """Make the values with the outputs' names outputs of the graph."""
        source = self._source
        shapes = finish_graph(self._values, list(source.inputs), source.outputs)
        hint = "remove the name from the list of updateable tensors"
        self.invalid += [
            Problem("no node of the graph reads the updateable initializer", f"tensor '{n}'", hint)
            for n in self._values.unused_updateable()
        ]
        if (batch := self._values.batch) and (nodes := self._values.rebatched):
            _LOG.warning(
                "constant shapes for the file's batch %d are taken for batch %d; nodes: %d, first: "
                "'%s'",
                *batch,
                len(nodes),
                nodes[0],
            )
        declared = {name: dims_of(info) for name, info in source.declared.items()}
        warn_of_shapes(
            {n: (dims_of(source.inputs[n]), spec.shape) for n, spec in self._specs.items()},
            {name: (declared.get(name), shape) for name, shape in shapes.items()},
        )


def _changed_batch(source: SourceGraph, specs: Mapping[str, Spec]) -> tuple[int, int] | None:
    """Return the first dimension of inputs in the file and as bound, if one was changed."""
    changed = set()
    for name, spec in specs.items():
        dims = dims_of(source.inputs[name])
        if dims and spec.shape and isinstance(dims[0], int) and dims[0] not in (0, spec.shape[0]):
            changed.add((dims[0], spec.shape[0]))
    return changed.pop() if len(changed) == 1 else None
