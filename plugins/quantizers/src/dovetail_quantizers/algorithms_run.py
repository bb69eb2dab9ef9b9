"""The calls of the algorithms that the user names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from dovetail.errors import DovetailError, PluginError, QuantizationError
from dovetail.ir import Graph, copy_graph
from dovetail.ops import OpRegistry, find_op_faults
from dovetail.plugins import load as load_plugin
from dovetail.quantization import (
    Calibration,
    Judgement,
    Precision,
    QuantizationAlgorithm,
    QuantizationOptions,
    Refinement,
    Trials,
    Workspace,
)
from dovetail_quantizers.algorithms.parameters import make_algorithm
from dovetail_quantizers.annotation.annotate import Decisions
from dovetail_quantizers.calibration.samples import is_repeatable
from dovetail_quantizers.judgement.judge import Judge, note_on
from dovetail_quantizers.judgement.snapshot import Snapshot
from dovetail_quantizers.refinement.statistics import gather

GROUP = "dovetail.quantization_algorithms"
_ONCE = "outputs are compared only on samples that can be read more than once, such as a list"


class Algorithms:
    """The algorithms of one graph, in the user's order.

    Raises:
        PluginError: An algorithm is not installed, or is broken.
        ConfigError: An algorithm does not accept its parameters.
    """

    def __init__(self, options: QuantizationOptions) -> None:
        self._each = [
            make_algorithm(
                cast("type[QuantizationAlgorithm]", load_plugin(GROUP, name)),
                name,
                options.algorithm_params.get(name, {}),
            )
            for name in options.algorithms
        ]
        self._options = options

    def __bool__(self) -> bool:
        return bool(self._each)

    def rewrite(
        self,
        graph: Graph,
        calibration: Calibration | None,
        ops: OpRegistry,
        given: frozenset[str] = frozenset(),
        judge: Judge | None = None,
    ) -> list[str]:
        """Call each algorithm's `rewrite` on a float graph, and return the notes.

        Args:
            graph: Changed.
            calibration: The samples.
            ops: Finds ops.
            given: As in `Workspace`.
            judge: Decides whether a change is kept; without one, all changes are.

        Raises:
            QuantizationError: An algorithm observes tensors, and there are no samples.
            PluginError: An algorithm failed.
            AssertionError: An algorithm left an invalid graph: a bug of the algorithm.
        """
        notes: list[str] = []
        for each in self._each:
            with _translated(each):
                wanted = tuple(each.observe(graph, ops))
            if wanted and calibration is not None and not is_repeatable(calibration):
                raise QuantizationError(
                    f"the algorithm '{each.name}' reads the samples before calibration does",
                    code="CALIBRATION_EMPTY",
                    where=f"graph '{graph.name}'",
                    hint="pass the samples as a list, which can be read again",
                )
            seen = gather(graph, calibration, wanted, ops, self._options.calibration_backend)
            work = Workspace(graph, ops, self._options, seen, given)
            before, snapshot = copy_graph(graph), Snapshot(graph)
            with _translated(each):
                lines = self._named(each, each.rewrite(work))
            if faults := find_op_faults(graph, ops):
                listed = "; ".join(map(str, faults[:3]))
                raise AssertionError(f"algorithm '{each.name}' broke the graph: {listed}")
            judgement = None
            if judge is not None and snapshot.is_changed():
                judgement = judge.of_rewrite(each.name, before, graph)
            notes += self._settled(each.name, snapshot, judgement, lines)
        return notes

    def choose(self, work: Trials) -> tuple[dict[str, Precision], list[str]]:
        """Return the precisions that the algorithms choose, and notes; later choices win."""
        chosen: dict[str, Precision] = {}
        notes: list[str] = []
        for each in self._each:
            with _translated(each):
                choice = each.choose(work)
            if choice is not None:
                chosen |= choice.precisions
                notes += self._named(each, choice.notes)
        return chosen, notes

    def refine(
        self, work: Refinement, decisions: Decisions, judge: Judge | None = None
    ) -> list[str]:
        """Call each algorithm's `refine` on a quantized graph, and return the notes.

        Args:
            work: The graph.
            decisions: What its tensors got; changed with it.
            judge: Decides whether a change is kept; without one, all changes are.

        Raises:
            PluginError: An algorithm failed.
        """
        notes: list[str] = []
        for each in self._each:
            before, snapshot, decided = copy_graph(work.graph), Snapshot(work.graph), {**decisions}
            with _translated(each):
                lines = self._named(each, each.refine(work))
            judgement = None
            if judge is not None and snapshot.is_changed():
                judgement = judge.of_refinement(each.name, before, work.graph)
            if judgement is not None and not judgement.kept:
                decisions.clear()
                decisions.update(decided)
            notes += self._settled(each.name, snapshot, judgement, lines)
        return notes

    def _settled(
        self, name: str, snapshot: Snapshot, judgement: Judgement | None, notes: list[str]
    ) -> list[str]:
        """Keep or undo what an algorithm changed, and return the notes on it."""
        if judgement is None:
            is_unjudged = snapshot.is_changed() and not self._options.skip_algorithm_check
            return [*notes, f"{name}: not judged: {_ONCE}"] if is_unjudged else notes
        if judgement.kept:
            return [*notes, note_on(judgement)]
        snapshot.restore()
        return [note_on(judgement)]

    def _named(self, each: QuantizationAlgorithm, notes: object) -> list[str]:
        return [f"{each.name}: {note}" for note in cast("tuple[str, ...]", notes)]


@contextmanager
def _translated(algorithm: QuantizationAlgorithm) -> Iterator[None]:
    """Name the algorithm in errors that its code raises.

    Raises:
        PluginError: The algorithm failed with an error that is not Dovetail's.
    """
    try:
        yield
    except (DovetailError, AssertionError):
        raise
    except Exception as error:
        raise PluginError(
            f"the algorithm failed: {type(error).__name__}: {error}",
            where=f"{GROUP} '{algorithm.name}'",
            hint="leave out the algorithm, and report this to its author",
        ) from error
