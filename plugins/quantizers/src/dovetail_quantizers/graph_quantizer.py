"""Quantization of one graph: rewritten, calibrated, annotated and refined, in this order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.ir import Graph, copy_graph
from dovetail.ops import OpRegistry, check_ops
from dovetail.quantization import (
    Advice,
    Calibration,
    Difference,
    Judgement,
    QuantizationOptions,
    TensorDecision,
)
from dovetail_opset.passes import DropNanTests, SingleOps
from dovetail_quantizers.advice.advise import advice_on
from dovetail_quantizers.advice.noise import noise_of
from dovetail_quantizers.aimet import with_aimet
from dovetail_quantizers.algorithms_run import Algorithms
from dovetail_quantizers.annotation.annotate import Decisions, annotate
from dovetail_quantizers.annotation.interfaces import join_interfaces
from dovetail_quantizers.annotation.range_notes import hardly_used, narrower_than_given
from dovetail_quantizers.annotation.reporting import (
    already_fixed,
    decisions_of,
    differences_of,
    dropped,
    summary_of,
    unlike_members,
    without_effect,
)
from dovetail_quantizers.annotation.statics import check_statics
from dovetail_quantizers.calibration.observer import Observed
from dovetail_quantizers.calibration.ranges import observe_ranges
from dovetail_quantizers.files import EncodingsFile
from dovetail_quantizers.judgement.judge import Judge, can_judge
from dovetail_quantizers.narrowing import narrow_floats
from dovetail_quantizers.planning.columns import put_back_for_blocks
from dovetail_quantizers.planning.decide import decide
from dovetail_quantizers.planning.divisors import multiply_by_reciprocals
from dovetail_quantizers.planning.interfaces import keep_float16, take_type_of_activations
from dovetail_quantizers.planning.overrides import Overrides, overrides_of
from dovetail_quantizers.planning.plan import Plan, make_plan
from dovetail_quantizers.planning.propagation import propagate
from dovetail_quantizers.planning.qdq_extraction import extract_qdq
from dovetail_quantizers.planning.recipe import Recipes
from dovetail_quantizers.planning.stored_weights import leave_to_channels
from dovetail_quantizers.refinement.walk import Walk
from dovetail_quantizers.targets import Target
from dovetail_quantizers.trials import Trials, chosen_overrides


@dataclass(frozen=True, slots=True)
class QuantizedGraph:
    """A quantized graph, and what a `QuantizationReport` says about it.

    Attributes:
        graph: The new graph.
        tensors: The decisions on its tensors.
        samples: Number of sets of inputs used in calibration.
        uncovered: Tensors that the encodings file does not mention; None without a file.
        differences: Differences from a source that was already quantized.
        judgements: Judgements of the algorithms that changed it.
        advice: Options that would reduce the error of its outputs.
        notes: Further information.
    """

    graph: Graph
    tensors: tuple[TensorDecision, ...]
    samples: int
    uncovered: tuple[str, ...] | None
    differences: tuple[Difference, ...]
    judgements: tuple[Judgement, ...]
    advice: list[Advice]
    notes: list[str]


@dataclass(frozen=True, slots=True)
class FloatGraph:
    """A graph to quantize.

    Attributes:
        source: The graph of the model.
        graph: Its copy in the ops and types that are quantized.
        notes: What has changed.
    """

    source: Graph
    graph: Graph
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GraphQuantizer:
    """Quantizes the graphs of a model.

    Attributes:
        options: The options, complete.
        file: The encodings file that they name; None without one.
        recipes: The recipes of the options.
        target: The backend that is to run the graphs.
        ops: Finds ops.
    """

    options: QuantizationOptions
    file: EncodingsFile | None
    recipes: Recipes
    target: Target
    ops: OpRegistry

    def float_graph(self, graph: Graph) -> FloatGraph:
        """Return a copy of a graph in the ops and types that are quantized."""
        check_ops(graph, self.ops)
        work = copy_graph(graph)
        SingleOps().run(work)  # the ops whose facts and names the later steps read
        notes = [*narrow_floats(work, self.options), *self.target.write_out(work)]
        if not self.recipes.activation.is_like_sdk:
            entries = () if self.file is None else self.file.entries.keys()
            multiply_by_reciprocals(work, {*entries, *graph.source_encodings})
        check_statics(work, self.ops)
        put_back_for_blocks(work, self.options.weights_block_size)
        return FloatGraph(graph, work, tuple(notes))

    def quantize(self, given: FloatGraph, calibration: Calibration | None) -> QuantizedGraph:
        """Quantize a graph; its errors are those of `dovetail.quantization.Quantizer.quantize`.

        Args:
            given: The graph, as `float_graph` returns it; quantized in place.
            calibration: The samples; None without any.
        """
        graph, work, notes = given.source, given.graph, [*given.notes]
        overrides, changes = self._own_encodings(work, notes, calibrates=calibration is not None)
        if self.file is not None:
            overrides = overrides.under(self._file_encodings(graph, work, self.file))
        algorithms = Algorithms(self.options)
        judge = self._judge(work, calibration, overrides) if algorithms else None
        learning = calibration if judge is None else judge.learning
        notes += algorithms.rewrite(work, learning, self.ops, overrides.given, judge)
        overrides = with_aimet(work, calibration, self.options, self.ops, overrides)
        float_graph = copy_graph(work)
        trials = Trials(float_graph, calibration, self.options, self.recipes, overrides, self.ops)
        chosen, choices = algorithms.choose(trials)
        notes += choices
        overrides = chosen_overrides(work, chosen, self.options, self.ops).under(overrides)
        plan = self._plan(work, calibration, overrides)
        uncovered = None if self.file is None else overrides.uncovered(work)
        observed, decisions = _calibrated(plan, calibration)
        walk = Walk(plan, float_graph, learning, decisions)
        notes += algorithms.refine(walk, decisions, judge)
        measured = None if judge is None else judge.ratio_db
        advice = advice_on(noise_of(plan, float_graph, observed.drawn), measured)
        join_interfaces(plan, decisions)
        DropNanTests().run(work)
        plan.notes += self.target.notes(work)
        differences: tuple[Difference, ...] = ()
        if changes:
            differences = (*changes, *differences_of(plan, decisions))
            notes.append(summary_of(graph.name, differences))
        return QuantizedGraph(
            graph=work,
            tensors=decisions_of(plan, decisions),
            samples=observed.samples,
            uncovered=uncovered,
            differences=differences,
            judgements=() if judge is None else tuple(judge.judgements),
            advice=advice,
            notes=[*notes, *plan.notes],
        )

    def _own_encodings(
        self, work: Graph, notes: list[str], *, calibrates: bool
    ) -> tuple[Overrides, Sequence[Difference]]:
        """Extract the quantization of the model; return its encodings, and what becomes of them."""
        options = self.options
        overrides = extract_qdq(
            work,
            self.ops,
            keeps_nodes=options.keep_quant_nodes,
            keeps_encodings=not options.ignore_encodings,
            calibrates=calibrates,
        )
        if options.use_per_channel_quantization:
            leave_to_channels(work, self.ops, overrides)
        notes += already_fixed(work, options.algorithms, overrides.interfaces)
        changes = overrides.changes
        if options.ignore_encodings:
            overrides, changes = Overrides(interfaces=overrides.interfaces), dropped(changes)
        if self.recipes.activation.is_like_sdk:
            take_type_of_activations(overrides, self.recipes.activation)
        keep_float16(work, overrides)
        return overrides, changes

    def _file_encodings(self, graph: Graph, work: Graph, file: EncodingsFile) -> Overrides:
        """Return the encodings of the file, of tensors of the model or of the float graph."""
        known = frozenset(tensor.source for tensor in graph.tensors.values())
        return overrides_of(file, work, self.ops, known)

    def _judge(
        self, work: Graph, calibration: Calibration | None, overrides: Overrides
    ) -> Judge | None:
        """Return the judge of the algorithms; None if they are not to be judged."""
        if not can_judge(calibration, self.options):
            return None
        return Judge(work, calibration, self.options, self.recipes, overrides, self.ops)

    def _plan(self, work: Graph, calibration: Calibration | None, overrides: Overrides) -> Plan:
        if calibration is None:
            propagate(work, self.ops, self.options, overrides)
        floats_only = calibration is None and _changes_floats_only(self.options)
        self.target.take_types(work, overrides, floats_only=floats_only)
        return make_plan(
            work, self.ops, self.options, self.recipes, overrides, floats_only=floats_only
        )


def _calibrated(plan: Plan, calibration: Calibration | None) -> tuple[Observed, Decisions]:
    """Observe the ranges that a plan needs, and quantize its graph; return both."""
    observed = observe_ranges(plan, calibration)
    plan.notes += unlike_members(plan, observed.members)
    plan.notes += hardly_used(plan, observed.ranges)
    plan.notes += narrower_than_given(plan)
    decisions = annotate(plan, decide(plan, observed.ranges))
    plan.notes += without_effect(plan, decisions)
    check_ops(plan.graph, plan.ops)
    return observed, decisions


def _changes_floats_only(options: QuantizationOptions) -> bool:
    """Return whether options only ask for another float type, or for weights alone."""
    said = options.quantization_overrides is not None or options.float_fallback
    asked = options.float_bitwidth == 16 or options.keep_weights_quantized
    return not said and asked
