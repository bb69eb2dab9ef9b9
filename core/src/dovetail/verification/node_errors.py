"""Own and inherited errors of nodes: which node of a graph deviates, and which only passes it on.

Two sides run the same graph: the reference and the target. Let x be the inputs and y the outputs
of a node in the reference's run, x' and y' those in the target's run, and T(x) what the target
computes from the reference's inputs. Then

    total      compares y with y'
    own        compares y with T(x): the node's deviation, given the right inputs
    inherited  compares T(x) with y': what the deviation of its inputs leads to

The differences add up: y' - y = (T(x) - y) + (y' - T(x)). Only the target runs single nodes.

The target may have nodes of its own, which come from no node of the model, as the Convert to the
type that a node needs. Where the reference lacks their results, these are what the target computes
from the reference's values: the rounding then belongs to the own error of the nodes that read them.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.errors import ConfigError, DovetailError
from dovetail.ir import Array, Graph, Node, Tensor
from dovetail.verification.comparison import Comparison
from dovetail.verification.configured import ConfiguredVerifier, Verification

Values = Mapping[str, Array]
NodeRunner = Callable[[Node, Values], Values]


class Cause(enum.StrEnum):
    """Why an output of a node deviates."""

    NONE = "none"
    OWN = "own"
    INHERITED = "inherited"
    ACCUMULATED = "accumulated"  # own and inherited error pass, their sum does not
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class RunPair:
    """The real values of a graph's tensors, by name, in runs of both sides on the same inputs.

    Mappings may load values when they are read, which may be several times.

    Attributes:
        reference: Values in the reference's run.
        target: Values in the target's run; those of graph inputs may be missing. None if the target
            only runs single nodes: its run is then that of its nodes one after another.
    """

    reference: Values
    target: Values | None = None


@dataclass(frozen=True, slots=True)
class OutputErrors:
    """The errors of an output over all runs; None if a value for it is missing.

    Attributes:
        tensor: The output.
        total: Comparison of both sides' runs.
        own: Comparison of the reference's run with the target's node on the reference's inputs.
        inherited: Comparison of that with the target's run.
    """

    tensor: Tensor
    total: Comparison | None
    own: Comparison | None
    inherited: Comparison | None

    @property
    def cause(self) -> Cause:
        """Why the output deviates: `OWN` as soon as its own error does not pass."""
        if self.own is not None and not self.own.passed:
            return Cause.OWN
        if self.total is not None and self.total.passed:
            return Cause.NONE
        if self.total is None or self.own is None or self.inherited is None:
            return Cause.UNKNOWN
        return Cause.ACCUMULATED if self.inherited.passed else Cause.INHERITED


@dataclass(frozen=True, slots=True)
class NodeErrors:
    """The errors of a node.

    Attributes:
        node: The node.
        outputs: The errors of each output.
        missing: Names of tensors whose values one side lacks.
        failures: Errors of the target's node and of comparisons, which left out some errors.
    """

    node: Node
    outputs: tuple[OutputErrors, ...]
    missing: tuple[str, ...] = ()
    failures: tuple[DovetailError, ...] = ()


def node_errors(
    graph: Graph,
    runs: Sequence[RunPair],
    run_node: NodeRunner,
    verifier: ConfiguredVerifier | Callable[[Tensor], ConfiguredVerifier],
) -> Iterator[NodeErrors]:
    """Yield the own, inherited and total errors of each node, in topological order.

    Nodes are run when their errors are asked for, so that a search can stop at the first deviation.
    No array is kept but those that later nodes of `RunPair`s without a target's run read.

    Args:
        graph: The graph that both sides run.
        runs: Runs to compare, one for each sample.
        run_node: Runs a node on the target: takes the node and the real values of its inputs that
            are not static, and returns the real values of its outputs, both by tensor name. It may
            raise a DovetailError, which becomes a failure of the node.
        verifier: Compares values; or chooses the verifier of each tensor.

    Raises:
        ConfigError: The verifier reads several tensors together.
    """
    choose = verifier if callable(verifier) else lambda _: verifier
    chains = [_Chain(graph) for _ in runs]
    for node in graph.nodes:
        work = _NodeWork(node, [_Output(tensor, choose(tensor)) for tensor in node.outputs])
        for pair, chain in zip(runs, chains, strict=True):
            work.add(pair, chain, run_node)
            chain.drop_after(node)
        yield work.result()


class _Chain:
    """Values of single nodes that the target ran, which are dropped after their last use.

    Attributes:
        inputs: Names of the graph's inputs.
        values: Those in the target's run.
        added: Results of nodes that the reference lacks, from the reference's values.
    """

    def __init__(self, graph: Graph) -> None:
        self.inputs = {t.name for t in graph.inputs}
        self.values: dict[str, Array] = {}
        self.added: dict[str, Array] = {}
        self._unread = {
            t.name: len(graph.consumers(t)) for node in graph.nodes for t in node.outputs
        }

    def drop_after(self, node: Node) -> None:
        read = {t.name for t in node.inputs if t is not None}
        for name in {*read, *(t.name for t in node.outputs)} & self._unread.keys():
            self._unread[name] -= name in read
            if self._unread[name] == 0:
                self.values.pop(name, None)
                self.added.pop(name, None)


class _Output:
    """The comparisons of one output; each becomes None when a run lacks a value for it."""

    def __init__(self, tensor: Tensor, verifier: ConfiguredVerifier) -> None:
        if verifier.tensors != 1:
            raise ConfigError(
                f"verifier '{verifier.name}' reads {verifier.tensors} tensors together",
                hint="choose a verifier of single tensors for the errors of nodes",
            )
        self.tensor = tensor
        self.total: Verification | None = verifier.begin()
        self.own: Verification | None = verifier.begin()
        self.inherited: Verification | None = verifier.begin()

    def errors(self) -> OutputErrors:
        found = (None if v is None else v.finish() for v in (self.total, self.own, self.inherited))
        return OutputErrors(self.tensor, *found)


class _NodeWork:
    """The comparisons of one node."""

    def __init__(self, node: Node, outputs: list[_Output]) -> None:
        self._node = node
        self._outputs = outputs
        self._inputs = list(
            dict.fromkeys(t.name for t in node.inputs if t is not None and not t.kind.is_static)
        )
        self._missing: dict[str, None] = {}
        self._failures: list[DovetailError] = []

    def add(self, pair: RunPair, chain: _Chain, run_node: NodeRunner) -> None:
        expected = self._taken(self._inputs, pair.reference, chain.added)
        alone = self._run(run_node, expected)
        if alone is not None and not self._node.sources:
            chain.added |= {n: v for n, v in alone.items() if n not in pair.reference}
        if pair.target is not None:
            found: Values | None = pair.target
        else:
            # Graph inputs are the same on both sides.
            given = pair.reference if expected is None else expected
            fed = {
                name: given[name] for name in self._inputs if name in chain.inputs & given.keys()
            }
            inputs = self._taken(self._inputs, {**chain.values, **fed})
            found = alone if _are_equal(inputs, expected) else self._run(run_node, inputs)
            chain.values |= found or {}
        for output in self._outputs:
            name = output.tensor.name
            reference = chain.added if name in chain.added else pair.reference
            whole_runs = [values for values in (reference, pair.target) if values is not None]
            if any(name not in values for values in whole_runs):
                self._missing[name] = None
            self._compare(output, reference, alone, found)

    def result(self) -> NodeErrors:
        outputs = tuple(output.errors() for output in self._outputs)
        return NodeErrors(self._node, outputs, tuple(self._missing), tuple(self._failures))

    def _taken(self, names: list[str], *sources: Values) -> dict[str, Array] | None:
        """Return values by name, from the first source that has one; None, with a note, if none."""
        found = {name: next((s for s in sources if name in s), None) for name in names}
        missing = [name for name, source in found.items() if source is None]
        self._missing |= dict.fromkeys(missing)
        return None if missing else {n: s[n] for n, s in found.items() if s is not None}

    def _run(self, run_node: NodeRunner, inputs: Values | None) -> Values | None:
        if inputs is None:
            return None
        try:
            return run_node(self._node, inputs)
        except DovetailError as error:
            self._failures.append(error)
            return None

    def _compare(
        self, output: _Output, reference: Values, alone: Values | None, found: Values | None
    ) -> None:
        name = output.tensor.name
        y, from_x, y_target = (
            None if values is None or name not in values else values[name]
            for values in (reference, alone, found)
        )
        output.total = self._updated(output.total, y, y_target)
        output.own = self._updated(output.own, y, from_x)
        output.inherited = self._updated(output.inherited, from_x, y_target)

    def _updated(
        self, comparison: Verification | None, golden: Array | None, target: Array | None
    ) -> Verification | None:
        if comparison is None or golden is None or target is None:
            return None
        try:
            comparison.update(golden, target)
        except DovetailError as error:
            self._failures.append(error)
            return None
        return comparison


def _are_equal(one: Values | None, other: Values | None) -> bool:
    """Return whether a node computes the same from both inputs, without running it."""
    if one is None or other is None:
        return False
    return all(
        a is b or (a.dtype == b.dtype and np.array_equal(a, b))
        for a, b in ((one[name], other[name]) for name in one)
    )
