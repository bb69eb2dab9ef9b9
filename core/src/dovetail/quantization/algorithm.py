"""The contract of a quantization algorithm: what it may see of a model, and what it may change.

An algorithm is an entry point of `dovetail.quantization_algorithms` that loads a class. It is made
once for each graph, with the parameters that the user gives for it if it is a dataclass, whose
fields they are, else without arguments. It is called in these places, in the order in which the
user names the algorithms:

1. `observe` says what it wants to know of the float graph's tensors. If it names anything, the
   samples are run once for it.
2. `rewrite` changes the float graph, before ranges are calibrated: scales moved between layers,
   say. The graph must go on computing what it computed.
3. `choose` says how wide nodes are to be, after trying what comes of it.
4. `refine` sees each layer in order, as the float network and as the quantized one so far compute
   it, and changes stored weights and biases. Encodings of activations are settled by then.

A subclass overrides what it needs; the rest does nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array, Encoding, Graph, Node
from dovetail.ops import OpRegistry
from dovetail.quantization.options import QuantizationOptions

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Observation:
    """What an algorithm wants to know of a tensor.

    Attributes:
        tensor: Its name in the graph; an input or the result of a node.
        axis: Along which there are statistics for each index; None for the whole tensor.
        keep: Number of samples whose values are kept as they are.
    """

    tensor: str
    axis: int | None = None
    keep: int = 0


@dataclass(frozen=True, slots=True)
class Statistics:
    """What was observed of a tensor over all samples.

    Attributes:
        least, greatest, mean: Of all values, shape (), or of each index along the axis, (n,).
        mean_square: The mean of the squares, likewise.
        count: Number of values that each of them is of.
        kept: Real values of the first samples, as many as were asked for.
    """

    minimum: NDArray[np.float64]
    maximum: NDArray[np.float64]
    mean: NDArray[np.float64]
    mean_square: NDArray[np.float64]
    count: int
    kept: tuple[Floats, ...] = ()

    @property
    def absmax(self) -> NDArray[np.float64]:
        """The greatest magnitude."""
        return np.maximum(np.abs(self.minimum), np.abs(self.maximum))

    @property
    def variance(self) -> NDArray[np.float64]:
        """The mean square of the distance from the mean."""
        return np.maximum(self.mean_square - self.mean**2, 0)


@dataclass(frozen=True, slots=True)
class Workspace:
    """What an algorithm works on.

    Attributes:
        graph: The float graph; `rewrite` changes it.
        ops: Finds ops.
        options: The user's.
        seen: What was observed, by tensor name.
        given: Names of tensors for which the model or a file gives encodings, or says float: what
            they hold is not to be changed.
    """

    graph: Graph
    ops: OpRegistry
    options: QuantizationOptions
    seen: Mapping[str, Statistics]
    given: Collection[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Precision:
    """How wide a node is to be; None leaves what the options say.

    Attributes:
        act_bitwidth: Of its results, and of what shares their encoding.
        weights_bitwidth: Of its weights.
        float_bitwidth: It stays float, that wide; the other two mean nothing then.
    """

    act_bitwidth: int | None = None
    weights_bitwidth: int | None = None
    float_bitwidth: int | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """What an algorithm chose.

    Attributes:
        precisions: By the names of nodes.
        notes: On what it did, for the report.
    """

    precisions: Mapping[str, Precision]
    notes: Sequence[str] = ()


class Trials(Protocol):
    """Quantizes a graph in several precisions, without improving weights or biases."""

    @property
    def graph(self) -> Graph:
        """The float graph, as the algorithms rewrote it. Not to be changed."""

    @property
    def ops(self) -> OpRegistry:
        """Find ops."""

    @property
    def options(self) -> QuantizationOptions:
        """The user's."""

    def quantized(self, chosen: Mapping[str, Precision]) -> Graph:
        """Return the graph quantized with some nodes' precisions chosen, by name."""

    def outputs(self, graph: Graph, samples: int) -> Sequence[Mapping[str, Array]]:
        """Return the real values of a graph's outputs, for each of the first samples."""

    def fingerprint(self, samples: int) -> str:
        """Return what all that is tried depends on: the graph, the options and the samples."""


class Layer(Protocol):
    """One node with weights, as both networks run it over the samples.

    Arrays are real values, one for each sample, and belong to the layer: they are not to be kept
    or changed.
    """

    @property
    def node(self) -> Node:
        """The node in the quantized graph; its static inputs have types, encodings and data."""

    @property
    def weight(self) -> int:
        """Number of the input that is the weight."""

    @property
    def channel_axis(self) -> int | None:
        """The weight's axis of output channels."""

    @property
    def float_weight(self) -> Floats:
        """The weight before it was quantized."""

    @property
    def float_bias(self) -> Floats | None:
        """The bias before it was quantized, None where there is none."""

    @property
    def quantized_bias(self) -> Floats | None:
        """The bias that the quantized network adds by now, None where there is none."""

    @property
    def float_inputs(self) -> Sequence[Floats]:
        """What the float network gives to the layer."""

    @property
    def quantized_inputs(self) -> Sequence[Floats]:
        """What the quantized network gives to it, with all that was changed in earlier layers."""

    @property
    def float_outputs(self) -> Sequence[Floats]:
        """What the float network computes."""

    def accumulated(self) -> Iterator[Floats]:
        """Compute from the quantized inputs and the present weights, in real numbers.

        Nothing is rounded to the output's encoding, which may clip what a Relu behind it would.
        """

    def run(self, inputs: Floats, weight: Floats, bias: Floats | None) -> Floats:
        """Compute the layer from any real values."""

    def set_weight(self, stored: Array) -> None:
        """Store other integers in the weight's type, of its shape and under its encoding."""

    def set_weight_values(self, values: Floats, encoding: Encoding | None = None) -> None:
        """Store real values, rounded to the nearest, under another encoding if one is given."""

    def set_bias(self, values: Floats) -> None:
        """Store a bias, adding one to a node that has none; its encoding is chosen anew."""


class WeightedNode(Protocol):
    """One node with any number of weights, as both networks run it over the samples.

    Arrays are real values, and belong to the node: they are not to be kept or changed.
    """

    @property
    def node(self) -> Node:
        """The node in the quantized graph; its static inputs have types, encodings and data."""

    @property
    def layer(self) -> Layer | None:
        """The same as a layer, if it has data, one weight and a bias of their products."""

    @property
    def float_inputs(self) -> Mapping[int, Sequence[Floats]]:
        """What flows into it in the float network, by the number of the input, of each sample."""

    @property
    def quantized_inputs(self) -> Mapping[int, Sequence[Floats]]:
        """What flows into it in the quantized network, with all that was changed before."""

    @property
    def float_outputs(self) -> Sequence[Floats]:
        """What the float network computes as its first output."""

    def float_static(self, i: int) -> Floats | None:
        """Return a static input before it was quantized, None where there is none."""

    def quantized_static(self, i: int) -> Floats | None:
        """Return a static input as the quantized network has it by now, None where there is none."""

    def accumulated(self) -> Iterator[Floats]:
        """Compute the first output from the quantized inputs and the present weights."""

    def set_stored(self, i: int, stored: Array) -> None:
        """Store other integers in a static input's type, of its shape, under its encoding."""


class Refinement(Protocol):
    """A quantized graph beside the float one it came from."""

    @property
    def float_graph(self) -> Graph:
        """The float graph, as the algorithms rewrote it. Not to be changed."""

    @property
    def graph(self) -> Graph:
        """The quantized graph; weights and biases are changed through `layers`."""

    @property
    def ops(self) -> OpRegistry:
        """Find ops."""

    @property
    def options(self) -> QuantizationOptions:
        """The user's."""

    def layers(self, samples: int = 32) -> Iterator[Layer]:
        """Return the layers in the order of computation.

        When the next one is asked for, the present one is computed as it was left, so that later
        layers see what their inputs have become.

        Args:
            samples: As many of the first samples are run. What two layers pass on to each other is
                kept for all of them, so memory grows with this number.

        Raises:
            QuantizationError: The samples can be gone through only once.
        """

    def weighted(self, samples: int = 32) -> Iterator[WeightedNode]:
        """Return all nodes with weights, layers among them, as `layers` gives these."""


@runtime_checkable
class QuantizationAlgorithm(Protocol):
    """An algorithm; see the module's docstring for when its methods are called.

    Attributes:
        name: As the user names it: the name of its entry point.
    """

    name: ClassVar[str]

    def observe(self, graph: Graph, ops: OpRegistry) -> Sequence[Observation]:
        """Return what it wants to know of the float graph."""
        return ()

    def rewrite(self, work: Workspace) -> Sequence[str]:
        """Change the float graph, and return notes on what it did for the report.

        The graph must stay valid, and its outputs what they were but for rounding.
        """
        return ()

    def choose(self, work: Trials) -> Choice | None:
        """Chooses how wide nodes are to be; None leaves them to the options."""
        return None

    def refine(self, work: Refinement) -> Sequence[str]:
        """Change stored weights and biases, and return notes on what it did for the report."""
        return ()
