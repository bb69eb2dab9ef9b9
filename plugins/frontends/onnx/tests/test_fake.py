"""Fake quantization: numbers that do not fit each other, or no such operator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from dovetail.errors import FrontendError, UnsupportedOpError

F32 = np.float32
DOMAINS = {
    "Quant": "qonnx.custom_op.general",
    "FakeQuantize": "org.openvinotoolkit",
    "ATen": "org.pytorch.aten",
}
TENSOR = {"operator": "fake_quantize_per_tensor_affine"}
CHANNEL = {"operator": "fake_quantize_per_channel_affine"}
X = np.linspace(-2, 2, 10, dtype=F32).reshape(2, 5)


def fake(model: Any, op_type: str, numbers: list[Any], *, known: Any = None, **how: Any) -> Any:
    """Create a model of one such node, of an input or of known numbers that are added to one."""
    names = [f"n{i}" for i in range(len(numbers))]
    constants = {name: np.asarray(v) for name, v in zip(names, numbers, strict=True)}
    constants |= {} if known is None else {"w": known}
    first = "x" if known is None else "w"
    nodes = [
        helper.make_node(op_type, [first, *names], ["q"], domain=DOMAINS[op_type], **how),
        helper.make_node("Add", ["q", "x"], ["y"]),
    ]
    domains = [helper.make_opsetid(name, 1) for name in DOMAINS.values()]
    opsets = [helper.make_opsetid("", 17), *domains]
    return model(nodes, {"x": X}, ["y"], constants, opset_imports=opsets)


@pytest.mark.parametrize("known", [None, X], ids=["fed", "known"])
@pytest.mark.parametrize(
    ("op_type", "numbers", "how", "why"),
    [
        (
            "Quant",
            [np.ones((3, 1), F32), F32(0), F32(8)],
            {},
            r"scale \(3, 1\) does not match the input \(2, 5\)",
        ),
        (
            "Quant",
            [F32(1), np.zeros(4, F32), F32(8)],
            {},
            r"zero point \(4,\) does not match the input \(2, 5\)",
        ),
        (
            "Quant",
            [np.ones((7, 1, 1), F32), F32(0), F32(8)],
            {},
            r"scale \(7, 1, 1\) does not match the input \(2, 5\)",
        ),
        ("Quant", [F32(np.inf), F32(0), F32(8)], {}, "scale must be finite"),
        ("Quant", [np.float64(1e300), F32(0), F32(8)], {}, "scale must be finite"),
        ("Quant", [F32(1), F32(0), F32(np.nan)], {}, "unsupported bit width nan; expected 2 to 16"),
        ("Quant", [F32(1), F32(0), F32(np.inf)], {}, "unsupported bit width inf; expected 2 to 16"),
        ("Quant", [F32(1), F32(0), F32(2.5)], {}, r"unsupported bit width 2\.5; expected 2 to 16"),
        (
            "FakeQuantize",
            [-np.ones(3, F32), np.ones(4, F32)] * 2,
            {},
            r"input_low \(3,\) does not match the input \(2, 5\)",
        ),
        (
            "FakeQuantize",
            [np.zeros((), F32), np.full((), 1e-45, F32)] * 2,
            {},
            "the input range is empty",
        ),
        ("ATen", [F32(1), 0, F32(np.nan), 127], TENSOR, "range must be a whole number, got nan"),
        ("ATen", [F32(1), 0, 0, F32(np.inf)], TENSOR, "range must be a whole number, got inf"),
        (
            "ATen",
            [F32(1), 0, 0, 1 << 40],
            TENSOR,
            "unsupported range 0 to 1099511627776; the maximum is 16 bits",
        ),
        ("ATen", [np.ones(3, F32), np.zeros(3), 0, 255], TENSOR, "expected one scale, got 3"),
        (
            "ATen",
            [np.ones(5, F32), np.zeros(5), [0, 1], 0, 255],
            CHANNEL,
            "axis must be a single number, got 2 elements",
        ),
        (
            "ATen",
            [np.ones(3, F32), np.zeros(3), 1, 0, 255],
            CHANNEL,
            r"3 scales do not match axis 1 of \(2, 5\)",
        ),
    ],
)
def test_numbers_that_do_not_fit(model, read, op_type, numbers, how, why, known) -> None:
    with pytest.raises((FrontendError, UnsupportedOpError), match=why):
        read(fake(model, op_type, numbers, known=known, **how))


@pytest.mark.parametrize("known", [None, X], ids=["fed", "known"])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1), (2, 1), (5,), (2, 5)])
def test_scales_of_any_shape_that_fits(model, read, run, shape, known) -> None:
    scale = np.linspace(0.1, 0.3, int(np.prod(shape)), dtype=F32).reshape(shape)
    numbers = [scale, F32(3), F32(5)]
    graph = read(fake(model, "Quant", numbers, known=known, signed=0))
    exact = scale.reshape(()) if scale.size == 1 else scale
    wanted = (np.clip(np.rint(X / exact) + 3, 0, 31) - 3) * exact + X
    np.testing.assert_allclose(run(graph, {"x": X})["y"], wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("known", [None, X], ids=["fed", "known"])
def test_a_zero_point_far_out_is_no_grid(model, read, known) -> None:
    graph = read(fake(model, "Quant", [F32(1), F32(1e30), F32(8)], known=known))
    assert graph.source_encodings == {}
