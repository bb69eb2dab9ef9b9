"""The algorithms that the user names, at the places where they are called."""

from __future__ import annotations

from typing import cast

from dovetail.errors import QuantizationError
from dovetail.ir import Graph
from dovetail.ops import OpRegistry, find_op_faults
from dovetail.plugins import load as load_plugin
from dovetail.quantization import (
    Calibration,
    Precision,
    QuantizationAlgorithm,
    QuantizationOptions,
    Refinement,
    Trials,
    Workspace,
)
from dovetail_quantizers.algorithm_parameters import make_algorithm
from dovetail_quantizers.refinement.statistics import gather

GROUP = "dovetail.quantization_algorithms"


class Algorithms:
    """Those of one graph, in the user's order.

    Raises:
        PluginError: One is not installed, or broken.
        ConfigError: One does not take the parameters that are given for it.
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
    ) -> list[str]:
        """Lets each rewrite a float graph, with what it wants to know of it; gives their notes.

        Args:
            graph: Changed.
            calibration: The samples.
            ops: Finds ops.
            given: As in `Workspace`.

        Raises:
            QuantizationError: One observes, and there are no samples for it.
            AssertionError: One left a graph that is not valid: a bug of its own.
        """
        notes: list[str] = []
        for each in self._each:
            wanted = tuple(each.observe(graph, ops))
            if wanted and calibration is not None and iter(calibration) is calibration:
                raise QuantizationError(
                    f"the algorithm '{each.name}' goes through the samples before calibration does",
                    code="CALIBRATION_EMPTY",
                    where=f"graph '{graph.name}'",
                    hint="give the samples as a list, which can be gone through again",
                )
            seen = gather(graph, calibration, wanted, ops, self._options.calibration_backend)
            work = Workspace(graph, ops, self._options, seen, given)
            notes += self._named(each, each.rewrite(work))
            if faults := find_op_faults(graph, ops):
                listed = "; ".join(map(str, faults[:3]))
                raise AssertionError(f"algorithm '{each.name}' broke the graph: {listed}")
        return notes

    def choose(self, work: Trials) -> tuple[dict[str, Precision], list[str]]:
        """Lets each choose precisions, the later ones over the earlier; gives these and notes."""
        chosen: dict[str, Precision] = {}
        notes: list[str] = []
        for each in self._each:
            choice = each.choose(work)
            if choice is not None:
                chosen |= choice.precisions
                notes += self._named(each, choice.notes)
        return chosen, notes

    def refine(self, work: Refinement) -> list[str]:
        """Lets each refine a quantized graph; gives their notes."""
        return [note for each in self._each for note in self._named(each, each.refine(work))]

    def _named(self, each: QuantizationAlgorithm, notes: object) -> list[str]:
        return [f"{each.name}: {note}" for note in cast("tuple[str, ...]", notes)]
