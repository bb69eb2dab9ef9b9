"""Contract of quantization algorithms: what they may read and change in a model.

An algorithm is a class that an entry point of `dovetail.quantization_algorithms` loads. It is
created once for each graph: a dataclass with the user's parameters as fields, any other class
without arguments. Its methods are called in this sequence; the algorithms of each step run in the
order in which the user names them:

1. `observe` returns the statistics that it needs of the float graph's tensors. If there are any,
   the samples are run once for it.
2. `rewrite` changes the float graph before ranges are calibrated, for example by moving scales
   between layers. The graph must compute the same outputs.
3. `choose` chooses the bit widths of nodes after trials.
4. `refine` visits each layer in order, with its inputs in the float network and in the quantized
   one so far, and changes stored weights and biases. Encodings of activations are fixed by then.

A subclass overrides the methods that it needs; the others do nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array, Graph, Node
from dovetail.ops import OpRegistry
from dovetail.quantization.options import QuantizationOptions

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Observation:
    """Statistics of a tensor that an algorithm requests.

    Attributes:
        tensor: Name of the tensor in the graph; an input or the result of a node.
        axis: The axis with statistics for each index; None for the whole tensor.
        keep: Number of samples whose values are kept.
    """

    tensor: str
    axis: int | None = None
    keep: int = 0


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of a tensor over all samples.

    Attributes:
        minimum, maximum, mean: Statistics of all values, shape (), or of each index along the
            axis, (n,).
        mean_square: Mean of the squares, of the same shape.
        count: Number of values in each statistic.
        kept: Real values of the first samples, as many as requested.
    """

    minimum: NDArray[np.float64]
    maximum: NDArray[np.float64]
    mean: NDArray[np.float64]
    mean_square: NDArray[np.float64]
    count: int
    kept: tuple[Floats, ...] = ()

    @property
    def absmax(self) -> NDArray[np.float64]:
        """The maximum magnitude."""
        return np.maximum(np.abs(self.minimum), np.abs(self.maximum))

    @property
    def variance(self) -> NDArray[np.float64]:
        """The variance."""
        return np.maximum(self.mean_square - self.mean**2, 0)


@dataclass(frozen=True, slots=True)
class Workspace:
    """Input of an algorithm.

    Attributes:
        graph: The float graph; `rewrite` changes it.
        ops: The ops.
        options: The user's options.
        seen: Requested statistics by tensor name.
        given: Names of tensors whose encodings, or whose float type, the model or a file specifies:
            their values must not be changed.
    """

    graph: Graph
    ops: OpRegistry
    options: QuantizationOptions
    seen: Mapping[str, Statistics]
    given: Collection[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Precision:
    """Bit widths of a node; None for those of the options.

    Attributes:
        act_bitwidth: Bitwidth of its results, and of tensors that share their encoding.
        weights_bitwidth: Bitwidth of its weights.
        float_bitwidth: Width if the node stays float; the other two are then ignored.
    """

    act_bitwidth: int | None = None
    weights_bitwidth: int | None = None
    float_bitwidth: int | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """Choices of an algorithm.

    Attributes:
        precisions: Precisions by node name.
        notes: Notes for the report.
    """

    precisions: Mapping[str, Precision]
    notes: Sequence[str] = ()


class Trials(Protocol):
    """Quantizes a graph in several precisions, without improving weights or biases."""

    @property
    def graph(self) -> Graph:
        """The float graph after the algorithms rewrote it. Must not be changed."""

    @property
    def ops(self) -> OpRegistry:
        """The ops."""

    @property
    def options(self) -> QuantizationOptions:
        """The user's options."""

    def quantized(self, chosen: Mapping[str, Precision]) -> Graph:
        """Return the graph quantized with the precisions given for some nodes, by name."""

    def outputs(self, graph: Graph, samples: int) -> Sequence[Mapping[str, Array]]:
        """Return the real values of a graph's outputs for each of the first samples."""

    def fingerprint(self, samples: int) -> str:
        """Return a key of all that trials depend on: graph, options and samples."""


class Layer(Protocol):
    """A node with weights, in the float and the quantized network, over the samples.

    Arrays are real values, one for each sample. They belong to the layer and must not be kept or
    changed.
    """

    @property
    def node(self) -> Node:
        """The node in the quantized graph; its static inputs have types, encodings and data."""

    @property
    def weight(self) -> int:
        """Index of the weight among the inputs."""

    @property
    def channel_axis(self) -> int | None:
        """The weight's axis of output channels."""

    @property
    def float_weight(self) -> Floats:
        """The weight before it was quantized."""

    @property
    def float_bias(self) -> Floats | None:
        """The bias before it was quantized; None if there is none."""

    @property
    def quantized_bias(self) -> Floats | None:
        """The bias that the quantized network adds now; None if there is none."""

    @property
    def float_inputs(self) -> Sequence[Floats]:
        """The layer's inputs in the float network."""

    @property
    def quantized_inputs(self) -> Sequence[Floats]:
        """The layer's inputs in the quantized network, with the changes to earlier layers."""

    @property
    def float_outputs(self) -> Sequence[Floats]:
        """The layer's outputs in the float network."""

    def accumulated(self) -> Iterator[Floats]:
        """Compute from the quantized inputs and the present weights, in real numbers.

        Results are not rounded to the output's encoding, which may clip like a Relu after the node.
        """

    def run(self, inputs: Floats, weight: Floats, bias: Floats | None) -> Floats:
        """Compute the layer from given real values."""

    def set_weight(self, stored: Array) -> None:
        """Store other integers as the weight; type, shape and encoding stay."""

    def set_bias(self, values: Floats) -> None:
        """Store a bias and choose its encoding again; add an input for it if the node has none."""


class WeightedNode(Protocol):
    """A node with any number of weights, in the float and the quantized network.

    Arrays are real values. They belong to the node and must not be kept or changed.
    """

    @property
    def node(self) -> Node:
        """The node in the quantized graph; its static inputs have types, encodings and data."""

    @property
    def layer(self) -> Layer | None:
        """The node as a layer, if it has a data input, one weight and a bias of their products."""

    @property
    def float_inputs(self) -> Mapping[int, Sequence[Floats]]:
        """The node's inputs in the float network for each sample, by input index."""

    @property
    def quantized_inputs(self) -> Mapping[int, Sequence[Floats]]:
        """The node's inputs in the quantized network, with the changes to earlier nodes."""

    @property
    def float_outputs(self) -> Sequence[Floats]:
        """The node's first output in the float network."""

    def float_static(self, i: int) -> Floats | None:
        """Return a static input before it was quantized; None if there is none."""

    def quantized_static(self, i: int) -> Floats | None:
        """Return a static input of the quantized network as it is now; None if there is none."""

    def accumulated(self) -> Iterator[Floats]:
        """Compute the first output from the quantized inputs and the present weights."""

    def set_stored(self, i: int, stored: Array) -> None:
        """Store other integers as a static input; type, shape and encoding stay."""


class Refinement(Protocol):
    """A quantized graph and the float graph that it was created from."""

    @property
    def float_graph(self) -> Graph:
        """The float graph after the algorithms rewrote it. Must not be changed."""

    @property
    def graph(self) -> Graph:
        """The quantized graph; weights and biases are changed through `layers`."""

    @property
    def ops(self) -> OpRegistry:
        """The ops."""

    @property
    def options(self) -> QuantizationOptions:
        """The user's options."""

    def layers(self, samples: int = 32) -> Iterator[Layer]:
        """Return the layers in the order of computation.

        When the iteration advances, the current layer is computed with its changes, so that later
        layers receive their actual inputs.

        Args:
            samples: Number of first samples to run. Tensors between layers are kept for all of
                them, so memory grows with this number.

        Raises:
            QuantizationError: The samples can be iterated only once.
        """

    def weighted(self, samples: int = 32) -> Iterator[WeightedNode]:
        """Return all nodes with weights, including layers, in the manner of `layers`."""


@runtime_checkable
class QuantizationAlgorithm(Protocol):
    """Base class of algorithms; see the module docstring for when its methods are called.

    Attributes:
        name: Name of its entry point.
    """

    name: ClassVar[str]

    def observe(self, graph: Graph, ops: OpRegistry) -> Sequence[Observation]:
        """Return the statistics that it needs of the float graph."""
        return ()

    def rewrite(self, work: Workspace) -> Sequence[str]:
        """Change the float graph and return notes for the report.

        The graph must stay valid and compute the same outputs, except for rounding.
        """
        return ()

    def choose(self, work: Trials) -> Choice | None:
        """Choose bit widths of nodes; None to use those of the options."""
        return None

    def refine(self, work: Refinement) -> Sequence[str]:
        """Change stored weights and biases and return notes for the report."""
        return ()
