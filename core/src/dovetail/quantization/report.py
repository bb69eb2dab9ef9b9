"""What a quantizer says it decided: one line for each tensor, and why."""

from __future__ import annotations

from typing import Any

import msgspec


class TensorDecision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one tensor.

    Attributes:
        tensor: Its name in the user's model.
        role: `activation`, `weight`, `bias`, `constant` or `untouched`.
        dtype: The type it got.
        why: What decided it, in words.
        bitwidth: Bits really used, where it is fixed-point.
        scales: Number of its scales: 1 per tensor, more per channel or block.
        scale, offset: Where it has one scale.
        minimum, maximum: The range that its encoding spans, of all its channels.
        observed: The range that calibration saw.
        shared_with: The tensor whose encoding it shares.
        name: Its name in the graph, where several lines of a graph have one `tensor`: a copy in
            another layout, or a bias that was made of others.
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
    """What became of one place where a model was quantized before, or where it was not.

    Attributes:
        tensor: Its name in the user's model.
        kind: `encoding`, a quantizing of an activation that became its encoding; `weight`, `bias`
            and `constant`, what became of stored integers; `clip`, a Relu that a grid stood for;
            `kept`, quantizing that stays in the graph as ops; `dropped`, what was left out by
            option; `fixed`, a tensor that the model leaves float and that is fixed-point here;
            `float`, a node that stays float; `convert`, an op put between differing encodings.
        text: What was done, and why.
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
    value: bool | int | str
    estimated_gain_db: float
    why: str


class QuantizationReport(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a model.

    Attributes:
        tensors: Decisions by graph, in the graph's order.
        samples: Sets of inputs that calibration saw, by graph.
        uncovered: Tensors that an encodings file was given for and says nothing of, by graph.
        notes: What a user should know besides.
        differences: Between a model that was quantized before and this one, by graph; none of a
            float model.
        advice: Up to three options that would reduce the error of the outputs, best first.
        judgements: Of the algorithms that changed a graph, in order, by graph.
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
