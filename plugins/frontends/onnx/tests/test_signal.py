"""Transforms of signals, rotary embeddings and windows against the peer."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from dovetail.errors import FrontendError, UnsupportedOpError

F32, I32, I64 = np.float32, np.int32, np.int64
# float32 sums of up to 16 products; the peers turn by other steps
NEAR = {"rtol": 1e-4, "atol": 1e-5}


def number(value):
    return np.array(value, I64)


@pytest.mark.parametrize("onesided", [None, 0, 1])
@pytest.mark.parametrize(("step", "length"), [(4, 16), (3, 8), (16, 16), (5, 9)])
def test_stft(check, rng, step, length, onesided) -> None:
    signal = rng.standard_normal((2, 40, 1)).astype(F32)
    window = rng.uniform(0, 1, length).astype(F32)
    given = {} if onesided is None else {"onesided": onesided}
    check("STFT", [signal], known=[number(step), window, number(length)], **given, **NEAR)
    check("STFT", [signal], known=[number(step), window], **given, **NEAR)
    graph = check("STFT", [signal], known=[number(step), None, number(length)], **given, **NEAR)
    assert [node.op_type for node in graph.nodes] == ["Stft"]


@pytest.mark.parametrize("onesided", [0, 1])
def test_stft_of_a_signal_without_the_axis_of_parts(check, rng, onesided) -> None:
    signal = rng.standard_normal((2, 40)).astype(F32)
    known = [number(4), np.hanning(8).astype(F32)]
    check("STFT", [signal], known=known, onesided=onesided, **NEAR)


def test_stft_of_a_complex_signal(check, model, read, rng) -> None:
    signal = rng.standard_normal((2, 20, 2)).astype(F32)
    known = [number(4), np.hanning(8).astype(F32)]
    check("STFT", [signal], known=known, onesided=0, **NEAR)
    node = helper.make_node("STFT", ["x", "s", "w"], ["y"])
    made = model([node], {"x": signal}, ["y"], dict(zip("sw", known, strict=True)))
    with pytest.raises(
        UnsupportedOpError, match="onesided needs a real signal, but the signal is complex"
    ):
        read(made)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["x", "step"], "missing frame length, or a window of one dimension"),
        (["x", "zero", "", "step"], "frame step 0 and frame length 4 must be positive"),
        (["x", "two", "", "step"], "frame step must be a single number, got 2 elements"),
    ],
)
def test_an_stft_that_makes_no_sense(model, read, names, said) -> None:
    known = {"step": number(4), "zero": number(0), "two": number([1, 2])}
    node = helper.make_node("STFT", names, ["y"])
    with pytest.raises(FrontendError) as caught:
        read(model([node], {"x": np.zeros((1, 20, 1), F32)}, ["y"], known))
    assert said in str(caught.value)


def test_a_computed_frame_step(model, read) -> None:
    node = helper.make_node("STFT", ["x", "step", "", "length"], ["y"])
    feeds = {"x": np.zeros((1, 20, 1), F32), "step": number(4)}
    with pytest.raises(
        UnsupportedOpError,
        match="frame step 'step' is computed from the model's inputs; it must be known",
    ):
        read(model([node], feeds, ["y"], {"length": number(8)}))


@pytest.mark.parametrize("op_type", ["HannWindow", "HammingWindow", "BlackmanWindow"])
@pytest.mark.parametrize("periodic", [0, 1])
def test_windows_are_computed_at_import(agree, model, rng, op_type, periodic) -> None:
    nodes = [
        helper.make_node(op_type, ["size"], ["window"], periodic=periodic),
        helper.make_node("STFT", ["x", "step", "window"], ["y"]),
    ]
    feeds = {"x": rng.standard_normal((1, 40, 1)).astype(F32)}
    known = {"size": number(16), "step": number(8)}
    graph = agree(model(nodes, feeds, ["y"], known), feeds, **NEAR)
    assert [node.op_type for node in graph.nodes] == ["Stft"]


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("turned", [0, 4])
@pytest.mark.parametrize("form", ["four", "three"])
@pytest.mark.parametrize("positions", ["none", "known", "fed"])
def test_rotary_embedding(check, rng, positions, form, turned, interleaved) -> None:
    x = rng.standard_normal((2, 3, 5, 8) if form == "four" else (2, 5, 24)).astype(F32)
    half = (turned or 8) // 2
    given = {"interleaved": interleaved, "rotary_embedding_dim": turned, "opset": 23}
    if form == "three":
        given["num_heads"] = 3
    shape = (2, 5, half) if positions == "none" else (7, half)
    tables = [rng.uniform(-1, 1, shape).astype(F32) for _ in range(2)]
    ids = rng.integers(0, 7, (2, 5)).astype(I64)
    if positions == "known":
        check("RotaryEmbedding", [x], known=[*tables, ids], **given)
    else:
        check("RotaryEmbedding", [x, *tables, *([ids] if positions == "fed" else [])], **given)


def test_rotary_embedding_that_makes_no_sense(model, read, rng) -> None:
    table = rng.uniform(-1, 1, (7, 4)).astype(F32)
    known = {"c": table, "s": table, "p": np.array([[0, 7]], I64)}
    for shape, attributes, said in (
        ((1, 1, 2, 8), {}, "position 7 is out of range for 7"),
        ((1, 2, 24), {"num_heads": 5}, "does not divide into num_heads 5"),
        ((1, 2, 24), {}, "does not divide into num_heads 0"),
        ((2, 24), {"num_heads": 3}, "must have rank 3 or 4"),
    ):
        if said != "position 7 is out of range for 7":
            known["p"] = np.array([[0, 6]], I64)
        node = helper.make_node("RotaryEmbedding", ["x", "c", "s", "p"], ["y"], **attributes)
        with pytest.raises(FrontendError) as caught:
            read(model([node], {"x": np.zeros(shape, F32)}, ["y"], known, opset=23))
        assert said in str(caught.value)
