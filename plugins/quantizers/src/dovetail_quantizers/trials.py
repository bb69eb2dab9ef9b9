"""Trial quantizations of one graph; see `dovetail.quantization.Trials`."""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections.abc import Mapping

import msgspec
import numpy as np

from dovetail.ir import Array, Graph, copy_graph
from dovetail.ops import OpRegistry, check_ops, to_real
from dovetail.quantization import Calibration, Precision, QuantizationOptions
from dovetail_quantizers.annotation.annotate import annotate
from dovetail_quantizers.calibration.cache import key_of
from dovetail_quantizers.calibration.observer import observe
from dovetail_quantizers.calibration.running import inputs_for, runner
from dovetail_quantizers.calibration.samples import require_repeatable, samples_of
from dovetail_quantizers.planning.decide import decide
from dovetail_quantizers.planning.groups import find_groups
from dovetail_quantizers.planning.overrides import Overrides
from dovetail_quantizers.planning.plan import Plan, make_plan
from dovetail_quantizers.planning.precision import Float
from dovetail_quantizers.planning.recipe import MIN_MAX, Recipes
from dovetail_quantizers.planning.roles import present
from dovetail_quantizers.planning.rules import is_quantized
from dovetail_quantizers.planning.value_range import ValueRange

_WHY = "an algorithm chose float"


class Trials:
    """See `dovetail.quantization.Trials`.

    Args:
        graph: The float graph; not changed.
        calibration: The samples.
        options: The user's options.
        recipes: The recipes of the options.
        overrides: The given encodings of the graph's tensors; they apply to every trial.
        ops: Finds ops.
    """

    def __init__(
        self,
        graph: Graph,
        calibration: Calibration | None,
        options: QuantizationOptions,
        recipes: Recipes,
        overrides: Overrides,
        ops: OpRegistry,
    ) -> None:
        self.graph = graph
        self.options = options
        self.ops = ops
        self._calibration = calibration
        self._recipes = recipes
        self._overrides = overrides
        self._ranges: dict[tuple[tuple[str, ...], str], ValueRange] = {}

    def fingerprint(self, samples: int) -> str:
        """Return a hash of what trials depend on: the graph, the options and the samples."""
        # algorithms that ran before have changed the graph; later ones are not part of a trial
        options = msgspec.structs.replace(
            self.options, algorithms=(), algorithm_params={}, calibration_cache=None
        )
        digest = hashlib.sha256(f"{samples} {options!r}".encode())
        taken: list[dict[str, Array]] = []
        for sample in samples_of(self.graph, self._samples):  # ranges are of all samples
            taken = taken or [sample]
            for name, array in sorted(sample.items()):
                digest.update(name.encode() + array.tobytes())
        digest.update(str(key_of(self.graph, taken, {}, {})).encode())
        return digest.hexdigest()

    def quantized(self, chosen: Mapping[str, Precision]) -> Graph:
        """Return the quantized graph, with chosen precisions for some nodes, by name."""
        copy = copy_graph(self.graph)
        given = self._overrides.in_copy(copy)
        overrides = chosen_overrides(copy, chosen, self.options, self.ops).under(given)
        plan = make_plan(copy, self.ops, self.options, self._recipes, overrides)
        annotate(plan, decide(plan, self._ranges_of(plan)))
        check_ops(copy, self.ops)
        return copy

    def outputs(self, graph: Graph, samples: int) -> list[dict[str, Array]]:
        """Return the real values of a graph's outputs, for each of the first samples."""
        taken = itertools.islice(samples_of(self.graph, self._samples), samples)
        stored = {t.name: t.spec for t in self.graph.inputs}
        found = []
        with runner(graph, self.ops, "cpu", ()) as run:
            for sample in taken:
                shown = run(inputs_for(graph, sample, stored))
                found.append(
                    {t.name: np.array(to_real(shown[t.name], t.spec)) for t in graph.outputs}
                )
        return found

    @property
    def _samples(self) -> Calibration:
        purpose = "an algorithm tries precisions on the samples"
        return require_repeatable(self._calibration, self.graph, purpose)

    def _ranges_of(self, plan: Plan) -> dict[str, ValueRange]:
        """Return observed ranges by the names of group leaders; run samples only for new groups."""
        wanted = plan.watched()
        by_name = {group.leader.name: plan.recipe(group) for group in plan.needed()}
        extremes = plan.recipes.activation.estimator == MIN_MAX
        # extremes depend neither on the width nor on the other tensors of the group
        parts = {
            name: [(t.name,) for t in group] if extremes else [tuple(t.name for t in group)]
            for name, group in wanted.items()
        }
        counting = plan.counting()
        how = {
            name: f"{MIN_MAX if extremes else by_name[name].signature}"
            f" {[counting[t.name] for t in group if t.name in counting]}"
            for name, group in wanted.items()
        }
        new = {
            names: (by_name[name], how[name])
            for name, each in parts.items()
            for names in each
            if (names, how[name]) not in self._ranges
        }
        if new:
            seen = observe(
                plan.graph,
                self._samples,
                {names[0]: [plan.graph.tensor(n) for n in names] for names in new},
                {names[0]: recipe.new_estimator() for names, (recipe, _) in new.items()},
                self.ops,
                backend=self.options.calibration_backend,
                lenient=self.options.lenient,
                extremes_only=extremes,
                counting=counting,
            )
            for names, (_, signature) in new.items():
                self._ranges[names, signature] = seen.ranges[names[0]]
        ranges = {
            name: [self._ranges[names, how[name]] for names in each] for name, each in parts.items()
        }
        return {name: functools.reduce(ValueRange.joined, each) for name, each in ranges.items()}


def chosen_overrides(
    graph: Graph, chosen: Mapping[str, Precision], options: QuantizationOptions, ops: OpRegistry
) -> Overrides:
    """Return chosen precisions as overrides of a graph's tensors.

    Tensors that share an encoding with a node's output get its width, the largest of several.
    """
    found = Overrides()
    groups = find_groups(graph, ops, options, {})
    nodes = {node.name: node for node in graph.nodes}
    for name, precision in chosen.items():
        node = nodes[name]
        if precision.float_bitwidth is not None:
            found.floats[node] = Float(precision.float_bitwidth, _WHY)
            continue
        if precision.weights_bitwidth is not None:
            for _, tensor in present(node)[1:2]:
                if tensor.kind.is_static and is_quantized(tensor):
                    found.widths[tensor] = precision.weights_bitwidth
        if precision.act_bitwidth is not None:
            shared = [t for out in node.outputs if out in groups for t in groups[out].members]
            for tensor in shared:
                before = found.widths.get(tensor, 0)
                found.widths[tensor] = max(before, precision.act_bitwidth)
    return found
