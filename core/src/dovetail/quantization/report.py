"""Report of a quantizer: the decision for each tensor, and its reason."""

from __future__ import annotations

from typing import Any

import msgspec


class TensorDecision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Decision for a tensor.

    Attributes:
        tensor: Its name in the user's model.
        role: `activation`, `weight`, `bias`, `constant` or `untouched`.
        dtype: Its new type.
        why: Reason for the decision, in words.
        bitwidth: Number of bits used, if it is fixed-point.
        scales: Number of its scales: 1 per tensor, more per channel or block.
        scale, offset: Set if it has one scale.
        minimum, maximum: Range of its encoding, over all channels.
        observed: Range observed in calibration.
        shared_with: The tensor whose encoding it shares.
        name: Its name in the graph, if several decisions of a graph have the same `tensor`: a copy
            in another layout, or a bias created from others.
    """

    tensor: str
    role: str
    dtype: str
    why: str
    bitwidth: int | None = None
    scales: int | None = None
    scale: float | None = None
    offset: int | None = None
    minimum: float | None = None
    maximum: float | None = None
    observed: tuple[float, float] | None = None
    shared_with: str | None = None
    name: str | None = None


class Difference(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Difference between a model that was already quantized and the new one, at one tensor.

    Attributes:
        tensor: Its name in the user's model.
        kind: `encoding`, quantization of an activation that became its encoding; `stated`, an
            encoding that the float model states; `weight`, `bias` and `constant`, the result for
            stored integers; `clip`, a Relu that a grid represented;
            `kept`, quantization that stays in the graph as ops; `dropped`, left out because of an
            option; `fixed`, a tensor that is float in the source model and fixed-point now;
            `float`, a node that stays float; `convert`, an op inserted between different encodings.
        text: The change and its reason.
    """

    tensor: str
    kind: str
    text: str


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """The judgement of one algorithm: the error of the outputs before and after it.

    Attributes:
        algorithm: Its name.
        kept: Whether the error fell; if not, all that the algorithm changed was undone.
        before_db, after_db: Signal-to-noise ratio of the outputs' mean noise, -200 to 200 dB.
        outputs: Both ratios of each output, by its name in the user's model.
        samples: Number of samples that outputs were compared on.
        held_out: Whether the algorithm did not see these samples.
    """

    algorithm: str
    kept: bool
    before_db: float
    after_db: float
    outputs: dict[str, tuple[float, float]]
    samples: int
    held_out: bool


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """An option that would reduce the error of the outputs, by an estimate.

    Attributes:
        option: A field of `QuantizationOptions`.
        value: The value to give it.
        estimated_gain_db: A rough estimate of what it adds to the outputs' signal-to-noise ratio;
            it ranks the options.
        why: The reason, with the tensors that it concerns most.
    """

    option: str
    value: bool | int | str | tuple[str, ...]
    estimated_gain_db: float
    why: str


class QuantizationReport(msgspec.Struct, frozen=True, kw_only=True):
    """Report on a model.

    Attributes:
        tensors: Decisions by graph, in the graph's order.
        samples: Number of sets of inputs used in calibration, by graph.
        uncovered: Tensors that the given encodings file does not mention, by graph.
        notes: Further information for the user.
        differences: Differences from a source model that was already quantized, by graph.
        advice: Up to three options that would reduce the error of the outputs, best first.
        judgements: Judgements of the algorithms that changed a graph, in order, by graph.
    """

    tensors: dict[str, tuple[TensorDecision, ...]] = {}
    samples: dict[str, int] = {}
    uncovered: dict[str, tuple[str, ...]] = {}
    notes: tuple[str, ...] = ()
    differences: dict[str, tuple[Difference, ...]] = {}
    judgements: dict[str, tuple[Judgement, ...]] = {}
    advice: tuple[Advice, ...] = ()

    def to_builtins(self) -> dict[str, Any]:
        """Return the report as plain data, for JSON."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain
