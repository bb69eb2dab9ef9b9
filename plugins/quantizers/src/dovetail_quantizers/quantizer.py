"""The default quantizer: calibrates, decides encodings and annotates graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from dovetail.container import Model
from dovetail.errors import ConfigError, Problem, QuantizationError, suggest_name
from dovetail.ir import Array, Encoding, Graph, Tensor, copy_graph
from dovetail.ops import OpRegistry, check_ops
from dovetail.quantization import (
    Advice,
    Calibration,
    Difference,
    Judgement,
    QuantizationOptions,
    QuantizationReport,
    Quantized,
    TensorDecision,
)
from dovetail_opset.passes import DropNanTests, SingleOps
from dovetail_quantizers.advice.advise import advice_on, joined
from dovetail_quantizers.advice.noise import noise_of
from dovetail_quantizers.aimet import require_aimet, with_aimet
from dovetail_quantizers.algorithms_run import Algorithms
from dovetail_quantizers.annotation.annotate import annotate
from dovetail_quantizers.annotation.interfaces import join_interfaces
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
from dovetail_quantizers.calibration.cache import RangeCache, key_of
from dovetail_quantizers.calibration.observer import Observed, observe
from dovetail_quantizers.dumping import dump_model_encodings
from dovetail_quantizers.entries import check_entries
from dovetail_quantizers.judgement.judge import Judge, can_judge
from dovetail_quantizers.narrowing import narrow_floats
from dovetail_quantizers.planning.columns import put_back_for_blocks
from dovetail_quantizers.planning.decide import decide
from dovetail_quantizers.planning.overrides import (
    Overrides,
    overrides_for,
    overrides_of,
)
from dovetail_quantizers.planning.plan import Plan, make_plan
from dovetail_quantizers.planning.propagation import propagate
from dovetail_quantizers.planning.qdq_extraction import extract_qdq
from dovetail_quantizers.planning.recipe import MIN_MAX, recipes_of
from dovetail_quantizers.planning.stored_weights import leave_to_channels
from dovetail_quantizers.refinement.walk import Walk
from dovetail_quantizers.sdk_config import with_config
from dovetail_quantizers.stating import with_stated_encodings
from dovetail_quantizers.targets import Target
from dovetail_quantizers.trials import Trials, chosen_overrides
from dovetail_quantizers.updating import encoding_for, encodings_in, save_encodings

# Names in one message.
_SHOWN = 8


class DefaultQuantizer:
    """A quantizer that uses calibration, encodings files, or both."""

    def quantize(
        self,
        model: Model,
        calibration: Mapping[str, Calibration],
        options: QuantizationOptions,
        ops: OpRegistry,
    ) -> Quantized:
        """Quantize a model; see `dovetail.quantization.Quantizer`."""
        options, notes = with_config(options)
        file, options = overrides_for(options, tuple(model.graphs.values()))
        require_aimet(options)
        _require_interfaces(options, model)
        recipes = recipes_of(options)
        target = Target(options, recipes, ops)
        notes += check_entries(file, model, options)
        graphs: dict[str, Graph] = {}
        tensors: dict[str, tuple[TensorDecision, ...]] = {}
        samples: dict[str, int] = {}
        uncovered: dict[str, tuple[str, ...]] = {}
        differences: dict[str, tuple[Difference, ...]] = {}
        judgements: dict[str, tuple[Judgement, ...]] = {}
        advice: list[list[Advice]] = []
        for name, graph in model.graphs.items():
            check_ops(graph, ops)
            work = copy_graph(graph)
            SingleOps().run(work)  # the ops whose facts and names the steps below read
            notes += narrow_floats(work, options)
            notes += target.write_out(work)
            check_statics(work, ops)
            put_back_for_blocks(work, options.weights_block_size)
            overrides = extract_qdq(work, ops, keeps_nodes=options.keep_quant_nodes)
            if options.use_per_channel_quantization:
                leave_to_channels(work, ops, overrides)
            changes = overrides.changes
            notes += already_fixed(work, options.algorithms, overrides.interfaces)
            if options.ignore_encodings:
                overrides = Overrides(interfaces=overrides.interfaces)
                changes = dropped(changes)
            if file is not None:
                overrides = overrides.under(overrides_of(file, work, ops, _sources(graph)))
            samples_given = calibration.get(name)
            algorithms = Algorithms(options)
            judge = None
            if algorithms and can_judge(samples_given, options):
                judge = Judge(work, samples_given, options, recipes, overrides, ops)
            learning = samples_given if judge is None else judge.learning
            notes += algorithms.rewrite(work, learning, ops, overrides.given, judge)
            overrides = with_aimet(work, samples_given, options, ops, overrides)
            float_graph = copy_graph(work)
            chosen, told = algorithms.choose(
                Trials(float_graph, samples_given, options, recipes, overrides, ops)
            )
            notes += told
            overrides = chosen_overrides(work, chosen, options, ops).under(overrides)
            if samples_given is None:
                propagate(work, ops, options, overrides)
            floats_only = _floats_only(samples_given, options)
            target.take_types(work, overrides, floats_only=floats_only)
            plan = make_plan(
                work,
                ops,
                options,
                recipes,
                overrides,
                floats_only=floats_only,
            )
            if file is not None:
                uncovered[name] = overrides.uncovered(work)
            observed = _observe(plan, samples_given, options)
            plan.notes += unlike_members(plan, observed.members)
            decisions = annotate(plan, decide(plan, observed.ranges))
            plan.notes += without_effect(plan, decisions)
            check_ops(work, ops)
            walk = Walk(plan, float_graph, learning, decisions)
            notes += algorithms.refine(walk, decisions, judge)
            if judge is not None and judge.judgements:
                judgements[name] = tuple(judge.judgements)
            measured = None if judge is None else judge.ratio_db
            advice.append(advice_on(noise_of(plan, float_graph, observed.drawn), measured))
            join_interfaces(plan, decisions)
            DropNanTests().run(work)
            plan.notes += target.notes(work)
            graphs[name] = work
            tensors[name] = decisions_of(plan, decisions)
            if changes:
                differences[name] = (*changes, *differences_of(plan, decisions))
                notes.append(summary_of(name, differences[name]))
            samples[name] = observed.samples
            notes += plan.notes
        made = Model.of(*graphs.values(), producer=model.producer, registry=ops)
        report = QuantizationReport(
            tensors=tensors,
            samples=samples,
            uncovered=uncovered,
            notes=tuple(notes),
            differences=differences,
            judgements=judgements,
            advice=joined(advice),
        )
        return Quantized(made, report)

    def configured(self, options: QuantizationOptions) -> QuantizationOptions:
        """Return options completed by their config file; see `dovetail.quantization.Quantizer`."""
        return with_config(options)[0]

    def state_encodings(
        self, model: Model, options: QuantizationOptions, ops: OpRegistry
    ) -> tuple[Model, tuple[str, ...]]:
        """Return a float model that states encodings; see `dovetail.quantization.Quantizer`."""
        return with_stated_encodings(model, options, ops)

    def write_encodings(self, model: Model, model_path: Path) -> tuple[Path, ...]:
        """Write the encodings of each graph; see `dovetail.quantization.Quantizer`."""
        return dump_model_encodings(model, model_path)

    def read_encodings(self, path: Path, graph: Graph, ops: OpRegistry) -> dict[str, Encoding]:
        """Return the encodings in a file; see `dovetail.quantization.Quantizer`."""
        return encodings_in(path, graph, ops)

    def encoding_for(self, tensor: Tensor, values: Array) -> Encoding:
        """Return an encoding for other values; see `dovetail.quantization.Quantizer`."""
        return encoding_for(tensor, values)

    def save_encodings(
        self, graph: Graph, encodings: Mapping[str, Encoding], path: Path, ops: OpRegistry
    ) -> None:
        """Write encodings of tensors; see `dovetail.quantization.Quantizer`."""
        save_encodings(graph, encodings, path, ops)


def _sources(graph: Graph) -> frozenset[str]:
    return frozenset(tensor.source for tensor in graph.tensors.values())


def _require_interfaces(options: QuantizationOptions, model: Model) -> None:
    """Raise if an input or output that is to stay float is in no graph."""
    names = options.preserve_io_datatype
    graphs = model.graphs.values()
    known = {tensor.name for graph in graphs for tensor in (*graph.inputs, *graph.outputs)}
    problems = [
        Problem(f"no input or output '{name}'", hint=suggest_name(name, known))
        for name in (() if isinstance(names, bool) else names)
        if name not in known
    ]
    if problems:
        raise ConfigError(
            "options name unknown tensors", where="preserve_io_datatype", problems=problems
        )


def _floats_only(samples: Calibration | None, options: QuantizationOptions) -> bool:
    """Return whether the options only ask for another float type, or for weights alone."""
    said = options.quantization_overrides is not None or options.float_fallback
    asked = options.float_bitwidth == 16 or options.keep_weights_quantized
    return samples is None and not said and asked


def _observe(plan: Plan, calibration: Calibration | None, options: QuantizationOptions) -> Observed:
    where = f"graph '{plan.graph.name}'"
    if calibration is not None and options.float_fallback:
        raise ConfigError(
            "float_fallback replaces calibration, but there are samples",
            where=where,
            hint="remove the samples or float_fallback",
        )
    watched = plan.watched()
    if not watched:
        return Observed()
    if calibration is None:
        raise _missing(watched, where, is_partial=bool(plan.given))
    cache = _cache(plan, calibration)
    if cache is not None and (kept := cache.get()) is not None:
        plan.notes.append(f"ranges are from {options.calibration_cache}; no sample was run")
        return Observed(*kept)
    observed = observe(
        plan.graph,
        calibration,
        watched,
        plan.estimators(),
        plan.ops,
        backend=options.calibration_backend,
        lenient=options.lenient,
        extremes_only=plan.recipes.activation.estimator == MIN_MAX,
        counting=plan.counting(),
    )
    if cache is not None and observed.is_infinite:
        plan.notes.append(
            "the ranges were not cached: the calibration cache cannot store infinities"
        )
    elif cache is not None:
        cache.put(observed.ranges, observed.samples)
    return observed


def _missing(
    watched: Mapping[str, Sequence[Tensor]], where: str, *, is_partial: bool
) -> QuantizationError:
    """Return the error of ranges that nothing gives; it lists all if other encodings are given."""
    hint = "pass samples of the inputs (calibration=..., --input-list)"
    if not is_partial:
        text = f"missing calibration samples for the ranges of {_named(watched)}"
        return QuantizationError(text, code="CALIBRATION_EMPTY", where=where, hint=hint)
    lacking = {" and ".join(f"'{t.source}'" for t in tensors): None for tensors in watched.values()}
    several = "s" * (len(lacking) > 1)
    return QuantizationError(
        f"{len(lacking)} tensor{several} without an encoding, and no calibration samples",
        code="CALIBRATION_EMPTY",
        where=where,
        hint=f"{hint}, complete the encodings, or keep these tensors float (--float-fallback)",
        problems=[Problem("no encoding is given or follows", f"tensor {name}") for name in lacking],
    )


def _named(watched: Mapping[str, Sequence[Tensor]]) -> str:
    names = [f"'{tensor.source}'" for tensors in watched.values() for tensor in tensors]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _cache(plan: Plan, calibration: Calibration) -> RangeCache | None:
    path = plan.options.calibration_cache
    if path is None:
        return None
    how = {group.leader.name: plan.how(group) for group in plan.needed()}
    key = key_of(plan.graph, calibration, plan.watched(), how)
    if key is None:
        plan.notes.append("the calibration cache was not used: the samples can be read only once")
        return None
    return RangeCache(Path(path), key)
