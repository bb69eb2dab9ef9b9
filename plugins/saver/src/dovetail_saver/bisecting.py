"""Bisection: the first node whose outputs differ on two backends, and whether it is to blame."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from dovetail.errors import BackendError, DovetailError
from dovetail.ir import Array, Node, Tensor, TensorKind
from dovetail.ops import OpPackage
from dovetail.ops.simulate import from_real, to_real
from dovetail.runtime import Tensor as TensorHandle
from dovetail.runtime.calls import CallRecord
from dovetail.runtime.config_file import RunConfig
from dovetail.runtime.graph import Graph
from dovetail.verification import ConfiguredVerifier, NodeErrors, RunPair, node_errors
from dovetail_saver.call_sets import CallSet, call_name
from dovetail_saver.describing import HandleNames, describe
from dovetail_saver.interior import Execution, InteriorPlayer
from dovetail_saver.replay import Retarget
from dovetail_saver.trace import Entry, Trace

Values = Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two backends.

    Attributes:
        backend: Its name.
        config: Settings to use instead of the recorded ones.
    """

    backend: str
    config: RunConfig | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """The first node whose outputs differ.

    Attributes:
        call: Number of the execution.
        graph: Name of the graph.
        errors: The node with its own, inherited and total errors.
    """

    call: int
    graph: str
    errors: NodeErrors


@dataclass(frozen=True, slots=True)
class Bisection:
    """The result of a bisection.

    Attributes:
        found: The first node whose outputs differ; None if there is none.
        executes: Count of the executions that were compared.
        nodes: Count of the compared nodes of all of them.
    """

    found: Found | None
    executes: int
    nodes: int


class Bisector:
    """Replays a trace on two backends and compares their graphs node by node.

    Args:
        path: The trace.
        sides: The reference and the target.
        verifier: Decides which outputs differ.
        calls: The executions to compare; None for all.
        packages: Op packages that are not installed.
    """

    def __init__(
        self,
        path: Path,
        sides: Sequence[Side],
        verifier: ConfiguredVerifier,
        calls: CallSet | None = None,
        packages: Sequence[OpPackage] = (),
    ) -> None:
        self._path = path
        self._sides = sides
        self._verifier = verifier
        self._calls = calls
        self._packages = packages
        self._names = HandleNames()
        self._executes = 0
        self._nodes = 0

    def run(self) -> Bisection:
        """Return the first node whose outputs differ.

        Raises:
            TraceError: The trace is invalid.
            BackendError: A backend rejects a call that was recorded without an error.
            ConfigError: No call of the trace is chosen.
        """
        trace = Trace(self._path)
        with ExitStack() as stack:
            players = [
                stack.enter_context(InteriorPlayer(trace.payloads, each, self._packages))
                for each in (Retarget(side.backend, side.config) for side in self._sides)
            ]
            for entry in trace:
                if isinstance(entry.record, CallRecord):
                    self._names.note(entry.record)
                runs = [
                    self._play(player, side.backend, entry)
                    for player, side in zip(players, self._sides, strict=True)
                ]
                reference, target = runs
                if reference is None or target is None:
                    continue
                if self._calls and not self._calls.has(entry.index, call_name(entry.record)):
                    continue
                found = self._compare(entry, reference, target)
                if found is not None:
                    return Bisection(found, self._executes, self._nodes)
        if self._calls is not None and not self._executes:
            raise self._calls.empty_error(str(self._path))
        return Bisection(None, self._executes, self._nodes)

    def _play(self, player: InteriorPlayer, backend: str, entry: Entry) -> Execution | None:
        """Make a call on one side."""
        played, execution = player.play(entry)
        if played is not None and played.error is not None and played.record.error is None:
            error = played.error
            text = f"{error.code}: {error}" if isinstance(error, DovetailError) else str(error)
            raise BackendError(
                f"backend '{backend}' rejects call {entry.index}, "
                f"{describe(entry.record, self._names)}: {text}",
                where=entry.where,
                hint="bisect on backends that make all calls of the trace; "
                "`dovetail trace trim` keeps some of them",
            ) from error
        return execution

    def _compare(self, entry: Entry, reference: Execution, target: Execution) -> Found | None:
        """Return the first node of an execution whose outputs differ."""
        self._executes += 1
        graph = reference.graph
        specs = {name: tensor.spec for name, tensor in graph.ir.tensors.items()}
        sides = [
            {n: to_real(a, specs[n]) for n, a in run.values.items() if n in specs}
            for run in (reference, target)
        ]
        run_node = _node_runner(target.graph)
        for errors in node_errors(graph.ir, [RunPair(*sides)], run_node, self._verifier):
            self._nodes += 1
            totals = [output.total for output in errors.outputs]
            if any(total is not None and not total.passed for total in totals):
                return Found(entry.index, graph.name, errors)
        return None


def _node_runner(graph: Graph) -> Callable[[Node, Values], Values]:
    """Return a function that runs a node alone on a graph's backend, with its settings."""
    context = graph.context

    def run(node: Node, values: Values) -> Values:
        with context.backend.create_context(context.device, context.config) as own:
            single = own.create_graph(graph.name, graph.config)
            handles: dict[Tensor, TensorHandle] = {}
            for tensor in (*node.inputs, *node.outputs):
                if tensor is not None and tensor not in handles:
                    handles[tensor] = _create(single, tensor, is_output=tensor in node.outputs)
            single.add_node(
                node.name,
                node.package,
                node.op_type,
                [None if t is None else handles[t] for t in node.inputs],
                [handles[t] for t in node.outputs],
                node.params,
            )
            single.finalize()
            given = {t.name: t for t in node.inputs if t is not None and not t.kind.is_static}
            stored = {name: from_real(values[name], t.spec) for name, t in given.items()}
            found = single.execute(stored)
            return {t.name: to_real(found[t.name], t.spec) for t in node.outputs}

    return run


def _create(graph: Graph, tensor: Tensor, *, is_output: bool) -> TensorHandle:
    """Add a tensor of another graph as an input, an output or a constant."""
    kind = TensorKind.APP_READ if is_output else TensorKind.APP_WRITE
    is_static = tensor.kind.is_static
    return graph.create_tensor(
        tensor.name,
        tensor.dtype,
        tensor.shape,
        TensorKind.STATIC if is_static else kind,
        tensor.encoding,
        tensor.data if is_static else None,
    )
