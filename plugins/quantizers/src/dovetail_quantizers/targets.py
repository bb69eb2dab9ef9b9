"""The ops and types of a quantized graph for the backend that is to run it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dovetail.errors import counted
from dovetail.ir import DType, Graph, Node, Tensor, copy_graph, run_passes
from dovetail.ops import OpRegistry
from dovetail.quantization import QuantizationOptions
from dovetail.runtime import Backend
from dovetail_opset.passes import (
    NARROWER,
    CastLast,
    JoinAxes,
    RemoveIdentities,
    WriteOut,
    can_write_out,
    integers_in,
)
from dovetail_quantizers.annotation.annotate import annotate
from dovetail_quantizers.grid import Scheme
from dovetail_quantizers.narrowing import narrow_types
from dovetail_quantizers.planning.decide import decide
from dovetail_quantizers.planning.legal_types import Changes, notes_on, take_types, types_in
from dovetail_quantizers.planning.overrides import Overrides
from dovetail_quantizers.planning.plan import Plan, make_plan
from dovetail_quantizers.planning.recipe import Recipes
from dovetail_quantizers.planning.rules import op_of
from dovetail_quantizers.planning.value_range import ValueRange

# Types depend on the sign of values only, and only in the scheme UNSIGNED_SYMMETRIC.
_ANY, _NOT_NEGATIVE = ValueRange(-1.0, 1.0), ValueRange(0.0, 1.0)
_FOR = {None: "", DType.BOOL_8: " for bools", DType.INT_32: " for integers"}


class Target:
    """The backend of the option `target_backend`; without that, nothing is asked or changed.

    Args:
        options: The user's options.
        recipes: The recipes of the options.
        ops: Finds ops.

    Raises:
        PluginError, ConfigError: There is no such backend, or no such processor of it.
    """

    def __init__(self, options: QuantizationOptions, recipes: Recipes, ops: OpRegistry) -> None:
        self._options, self._recipes, self._ops = options, recipes, ops
        self._changes: Changes = {}
        if options.target_backend is not None:
            with self._backend(options.target_backend):  # raise before anything is run
                pass

    def write_out(self, graph: Graph) -> list[str]:
        """Write out what the backend lacks in ops and types that it has; return notes."""
        name = self._options.target_backend
        if name is None:
            return []
        with self._backend(name) as backend:
            notes = _narrowed(graph, backend, name)
            run_passes(graph, (CastLast(),))  # where only the wide type was in its way
            nodes = [node for node in graph.nodes if can_write_out(node)]
            lacking = {n.op_type for n in nodes if _is_lacking(backend, n)}
        counts = Counter(
            (node.op_type, _FOR[integers_in(node)]) for node in nodes if node.op_type in lacking
        )
        run_passes(graph, (WriteOut(lacking), JoinAxes(), RemoveIdentities()))
        return notes + [
            f"graph '{graph.name}': {counted(count, f'{op_type} node')} written out in other ops, "
            f"since {name} lacks the op{which}"
            for (op_type, which), count in counts.items()
        ]

    def take_types(self, graph: Graph, overrides: Overrides, *, floats_only: bool) -> None:
        """Add the types that it needs to the overrides of a float graph."""
        if self._options.target_backend is None:
            return

        def planned(trial: Graph, given: Overrides) -> Plan:
            return make_plan(
                trial, self._ops, self._options, self._recipes, given, floats_only=floats_only
            )

        def quantized(trial: Graph, given: Overrides) -> None:
            plan = planned(trial, given)
            annotate(plan, decide(plan, {n: _range_of(plan, t) for n, t in plan.watched().items()}))

        # Other types may part what shares an encoding; each tensor then keeps the given one.
        if overrides.encodings:
            overrides.encodings = planned(graph, overrides).followed() | overrides.encodings
        with self._backend(self._options.target_backend) as backend:
            self._changes = take_types(backend, graph, overrides, quantized)
        if self._recipes.activation.scheme is Scheme.UNSIGNED_SYMMETRIC:
            trial = copy_graph(graph)
            quantized(trial, overrides.in_copy(trial))
            _keep_types(graph, trial, overrides)

    def notes(self, graph: Graph) -> list[str]:
        """Return notes on a quantized graph: changed types, and nodes that it rejects."""
        name = self._options.target_backend
        if name is None:
            return []
        with self._backend(name) as backend:
            return list(notes_on(backend, name, graph, self._changes))

    def _backend(self, name: str) -> Backend:
        return Backend.create(name, None, self._ops)


def _range_of(plan: Plan, watched: Sequence[Tensor]) -> ValueRange:
    """Return a range with the sign of values, as far as it is known before they are observed."""
    makers = [plan.graph.producer(tensor) for tensor in watched]
    signs = [node is not None and op_of(node, plan.ops).value_range[0] >= 0 for node in makers]
    return _NOT_NEGATIVE if all(signs) else _ANY


def _keep_types(graph: Graph, trial: Graph, overrides: Overrides) -> None:
    """Decide on the types of a trial: the observed signs would lead to others."""
    for tensor, found in types_in(graph, trial).items():
        if tensor not in overrides.encodings:
            overrides.types.setdefault(tensor, found)


def _is_lacking(backend: Backend, node: Node) -> bool:
    """Return whether a backend lacks an op, or has it but rejects bools or integers.

    Other types may still change.
    """
    verdict = backend.validate_op(node)
    if integers_in(node) is not None:
        return not verdict.ok and verdict.rule != "op"
    return verdict.rule == "op"


def _narrowed(graph: Graph, backend: Backend, name: str) -> list[str]:
    """Narrow the types of 64 bits for which a backend rejects nodes; return notes."""
    lacking = {
        tensor.dtype
        for node in graph.nodes
        if (wide := [t for t in (*node.inputs, *node.outputs) if t and t.dtype in NARROWER])
        and backend.validate_op(node).rule == "dtype"
        for tensor in wide
    }
    return narrow_types(graph, lacking, f"since {name} lacks the type")
