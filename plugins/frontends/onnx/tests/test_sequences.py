"""Sequences and optional values: lists of tensors that are known at import."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from dovetail.errors import FrontendError, UnsupportedOpError

F32 = np.float32
N = helper.make_node
X = np.arange(20, dtype=F32).reshape(5, 4)


@pytest.fixture
def same(model, read, evaluate, run_peer):
    """Compare a model with the peer."""

    def run(nodes, outputs, constants=None, *, opset=17):
        made = model(nodes, {"x": X}, outputs, constants, opset=opset)
        found = evaluate(read(made), {"x": X})
        for name, want in run_peer(made, {"x": X}).items():
            np.testing.assert_array_equal(found[name], want, err_msg=name)

    return run


def at(sequence, position, output):
    return N("SequenceAt", [sequence, position], [output])


@pytest.mark.parametrize(
    ("split", "attributes"),
    [
        (np.array(2), {}),  # the last part is smaller
        (np.array([1, 3, 1]), {"axis": -2}),
        (np.array([4, 0]), {"axis": 1, "keepdims": 0}),  # which only counts without sizes
        (None, {}),
        (None, {"axis": 1, "keepdims": 0}),
    ],
    ids=["equal", "sizes", "empty part", "ones", "slices"],
)
@pytest.mark.parametrize("opset", [11, 17])
def test_parts(same, split, attributes, opset) -> None:
    constants = {"first": np.array(0), "last": np.array(-1)}
    constants |= {} if split is None else {"split": split}
    inputs = ["x"] if split is None else ["x", "split"]
    nodes = [
        N("SplitToSequence", inputs, ["parts"], **attributes),
        at("parts", "first", "y"),
        at("parts", "last", "z"),
        N("SequenceLength", ["parts"], ["n"]),
    ]
    same(nodes, ["y", "z", "n"], constants, opset=opset)


def test_elements_are_inserted_and_erased(same) -> None:
    nodes = [
        N("Neg", ["x"], ["a"]),
        N("Abs", ["x"], ["b"]),
        N("SequenceConstruct", ["x", "a"], ["s0"]),
        N("SequenceInsert", ["s0", "b", "one"], ["s1"]),  # x, b, a
        N("SequenceInsert", ["s1", "a"], ["s2"]),  # x, b, a, a
        N("SequenceInsert", ["s2", "b", "minus"], ["s3"]),  # x, b, a, b, a
        N("SequenceErase", ["s3", "one"], ["s4"]),  # x, a, b, a
        N("SequenceErase", ["s4"], ["s5"]),  # x, a, b
        N("Identity", ["s5"], ["s6"]),
        N("ConcatFromSequence", ["s6"], ["y"], axis=-1),
        N("ConcatFromSequence", ["s6"], ["z"], axis=-1, new_axis=1),
    ]
    same(nodes, ["y", "z"], {"one": np.array(1), "minus": np.array(-1)})


def test_a_loop_builds_a_sequence(same) -> None:
    body = helper.make_graph(
        [
            N("Identity", ["going"], ["again"]),
            N("SequenceAt", ["rows", "i"], ["row"]),
            N("Mul", ["row", "row"], ["square"]),
            N("SequenceInsert", ["before", "square"], ["after"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("going", TensorProto.BOOL, []),
            helper.make_tensor_sequence_value_info("before", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("again", TensorProto.BOOL, []),
            helper.make_tensor_sequence_value_info("after", TensorProto.FLOAT, None),
        ],
    )
    nodes = [
        N("SplitToSequence", ["x"], ["rows"], keepdims=0),
        N("SequenceEmpty", [], ["empty"]),
        N("Loop", ["n", "", "empty"], ["squares"], body=body),
        N("ConcatFromSequence", ["squares"], ["y"], axis=0, new_axis=1),
    ]
    same(nodes, ["y"], {"n": np.array(5)})


def test_an_optional_value(same) -> None:
    nodes = [
        N("Optional", ["x"], ["maybe"]),
        N("OptionalHasElement", ["maybe"], ["has"]),
        N("OptionalGetElement", ["maybe"], ["y"]),
        N("Relu", ["y"], ["z"]),
    ]
    same(nodes, ["has", "z"], opset=18)


SPLIT = N("SplitToSequence", ["x", "n"], ["s"])


@pytest.mark.parametrize(
    ("nodes", "n", "why"),
    [
        ([SPLIT, at("s", "n", "y")], 4, r"position 4 is out of range for a sequence of 2 elements"),
        ([SPLIT, N("Relu", ["s"], ["y"])], 4, "input 's' is a sequence; expected a tensor"),
        ([at("x", "n", "y")], 0, "input 'x' is not a sequence"),
        ([N("SequenceConstruct", ["x"], ["s"]), N("SplitToSequence", ["s"], ["y"])], 0, "tensor"),
        ([SPLIT, N("ConcatFromSequence", ["s"], ["y"], axis=0)], 0, "split 0 is neither"),
        ([N("SplitToSequence", ["x"], ["s"], axis=2), at("s", "n", "y")], 0, "axis 2 is out of"),
        ([N("SequenceEmpty", [], ["s"]), N("SequenceErase", ["s"], ["y"])], 0, "no element to"),
    ],
    ids=["position", "no tensor", "no sequence", "split", "size", "axis", "empty"],
)
def test_wrong_sequences(model, read, nodes, n, why) -> None:
    with pytest.raises(FrontendError, match=why):
        read(model(nodes, {"x": X}, ["y"], {"n": np.array(n)}))


@pytest.mark.parametrize(
    ("nodes", "outputs", "why"),
    [
        ([N("Cast", ["x"], ["i"], to=7), N("SplitToSequence", ["x", "i"], ["y"])], ["y"], "'i' is"),
        ([N("SequenceConstruct", ["x"], ["y"])], ["y"], "output 'y' of the model is a sequence"),
        ([N("SequenceEmpty", [], ["s"]), N("ConcatFromSequence", ["s"], ["y"], axis=0)], ["y"],
         "the sequence is empty"),
        ([N("Optional", [], ["m"], type=helper.make_tensor_type_proto(1, [])),
          N("OptionalGetElement", ["m"], ["y"])], ["y"], "optional value without an element"),
    ],
    ids=["unknown size", "output", "empty", "optional"],
)  # fmt: skip
def test_sequences_that_are_not_known(model, read, nodes, outputs, why) -> None:
    with pytest.raises(UnsupportedOpError, match=why):
        read(model(nodes, {"x": X}, outputs, opset=18))


def test_too_many_parts(model, read) -> None:
    wide = np.zeros((1, 20_000), F32)
    nodes = [N("SplitToSequence", ["x"], ["s"], axis=1), at("s", "n", "y")]
    with pytest.raises(UnsupportedOpError, match="unsupported number 20000 of parts"):
        read(model(nodes, {"x": wide}, ["y"], {"n": np.array(0)}))
