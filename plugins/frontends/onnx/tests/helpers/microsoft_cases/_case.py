"""A node of the domain com.microsoft with what it is given, and how ONNX Runtime runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, helper, numpy_helper
from runtime import peer_session

from dovetail.ir import Array

# Makes numbers of a shape.
Data = Callable[..., Array]

DOMAIN = "com.microsoft"
F32 = np.float32
# float32 sums over up to a few hundred elements, taken in another order than the peer's.
RTOL, ATOL = 1e-5, 2e-6


@dataclass(frozen=True)
class Known:
    """An input that the model holds."""

    values: Array


@dataclass(frozen=True)
class Case:
    """One node.

    Attributes:
        op_type: Its operator.
        about: What is special about it.
        inputs: Arrays that are fed, those that are known, None for left-out ones.
        attributes: Its attributes.
        outputs: How many outputs it lists; None for one left out in between.
        domain: Of its operator.
        opset: Of ONNX's own operators.
        rtol, atol: How far it may lie from the peer.
        off: The share of its integers that may be 1 off.
    """

    op_type: str
    about: str
    inputs: Sequence[Array | Known | None]
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: Sequence[str] = ("y0",)
    domain: str = DOMAIN
    opset: int = 17
    rtol: float = RTOL
    atol: float = ATOL
    off: float = 0.0

    @property
    def name(self) -> str:
        """Unique among all cases."""
        return f"{self.op_type}: {self.about}"

    @property
    def feeds(self) -> dict[str, Array]:
        """What is fed, by name."""
        return {f"x{i}": v for i, v in enumerate(self.inputs) if isinstance(v, np.ndarray)}

    @property
    def model(self) -> ModelProto:
        """A model of the one node."""
        known = {f"c{i}": v.values for i, v in enumerate(self.inputs) if isinstance(v, Known)}
        names = [
            "" if v is None else f"c{i}" if isinstance(v, Known) else f"x{i}"
            for i, v in enumerate(self.inputs)
        ]
        node = helper.make_node(
            self.op_type,
            names,
            self.outputs,
            name="the_node",
            domain=self.domain,
            **self.attributes,
        )
        return make_model([node], self.feeds, [o for o in self.outputs if o], known, self.opset)


_OPTIONS = ("domain", "opset", "rtol", "atol", "off")


def case(op_type: str, about: str, inputs: Sequence[Any], **given: Any) -> Case:
    """Create a case; see there.

    Args:
        op_type: Its operator.
        about: What is special about it.
        inputs: Its inputs.
        given: The other fields, `opset_import` for `opset`, and the operator's attributes. Outputs
            are named, or counted.
    """
    outputs = given.pop("outputs", 1)
    names = [f"y{i}" for i in range(outputs)] if isinstance(outputs, int) else outputs
    fields = {
        name: given.pop(key)
        for name in _OPTIONS
        if (key := "opset_import" if name == "opset" else name) in given
    }
    return Case(op_type, about, inputs, given, names, **fields)


def make_model(
    nodes: Sequence[onnx.NodeProto],
    feeds: dict[str, Array],
    outputs: Sequence[str],
    known: dict[str, Array],
    opset: int = 17,
) -> ModelProto:
    """Create a model with inputs like arrays, and outputs whose types the peer finds out."""
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in feeds.items()
    ]
    graph = helper.make_graph(
        list(nodes),
        "test",
        infos,
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(a, name) for name, a in known.items()],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def run_peer(model: ModelProto, feeds: dict[str, Array]) -> dict[str, Array]:
    """Run a model on ONNX Runtime."""
    session = peer_session(model)
    names = [o.name for o in model.graph.output]
    return dict(zip(names, session.run(names, feeds), strict=True))


def assert_like(given: Case, found: dict[str, Array], wanted: dict[str, Array]) -> None:
    """Check that a case gives what the peer gives: names, types, shapes and values.

    Raises:
        AssertionError: It does not.
    """
    assert list(found) == list(wanted)
    for name, want in wanted.items():
        got = found[name]
        assert (got.dtype, got.shape) == (want.dtype, want.shape), name
        if want.dtype.kind == "f":
            np.testing.assert_allclose(got, want, given.rtol, given.atol, err_msg=name)
            continue
        distance = np.abs(got.astype(np.int64) - want.astype(np.int64))
        assert distance.max(initial=0) <= (given.off > 0), name
        assert np.count_nonzero(distance) <= given.off * want.size, name
