"""Small whole models of the domain com.microsoft, as tools write them, against ONNX Runtime."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from microsoft_cases import run_peer
from microsoft_models import (
    bert,
    convolutional,
    dynamically_quantized,
    fused_bert,
    llama,
    quantized,
    saved_by_runtime,
)

from dovetail.plugins import names
from dovetail_onnx import backend

# float32 sums in another order, through a dozen layers whose values are around 1.
ATOL = 1e-5
needs_backend = pytest.mark.skipif(
    backend.BACKEND not in names("dovetail.backends"), reason="nothing runs the models"
)


def convolutional_quantized(folder):
    """Return a quantized network whose operators are between integers."""
    model, feeds = convolutional()
    return quantized(model, feeds, folder), feeds


def bert_quantized(folder):
    """Return a BERT with stored weights, as ONNX Runtime's own fusing leaves it."""
    model, feeds = bert()
    return saved_by_runtime(dynamically_quantized(model, folder), folder), feeds


def saved(make):
    """Return a maker of a model that ONNX Runtime has fused and saved."""

    def made(folder):
        model, feeds = make()
        return saved_by_runtime(model, folder), feeds

    return made


MODELS = {
    "a BERT of the optimizer": (
        lambda _: fused_bert(),
        {"EmbedLayerNormalization", "Attention", "SkipLayerNormalization", "BiasGelu"},
    ),
    "a BERT of the runtime": (saved(bert), {"FusedMatMul", "SkipLayerNormalization", "Gelu"}),
    "a Llama": (
        lambda _: llama(),
        {"MatMulNBits", "GroupQueryAttention", "SkipSimplifiedLayerNormalization", "QuickGelu"},
    ),
    "convolutions of the runtime": (saved(convolutional), {"FusedConv", "FusedGemm"}),
    "convolutions between integers": (
        convolutional_quantized,
        {"QLinearAdd", "QLinearLeakyRelu", "QLinearGlobalAveragePool", "QGemm", "QLinearSigmoid"},
    ),
    "a BERT with stored weights": (
        bert_quantized,
        {"DynamicQuantizeMatMul", "MatMulIntegerToFloat", "FusedMatMul"},
    ),
}


@pytest.fixture(params=MODELS)
def given(request, tmp_path):
    """Return a model that has the operators it is about, and what to feed it."""
    make, operators = MODELS[request.param]
    logging.disable(logging.WARNING)  # ONNX Runtime's quantizer recommends things
    model, feeds = make(tmp_path)
    logging.disable(logging.NOTSET)
    found = {n.op_type for n in model.graph.node if n.domain == "com.microsoft"}
    assert operators <= found
    return model, feeds


def test_the_graph_means_what_the_model_means(read, run, given) -> None:
    model, feeds = given
    found, wanted = run(read(model), feeds), run_peer(model, feeds)
    assert list(found) == list(wanted)
    for name, want in wanted.items():
        np.testing.assert_allclose(found[name], want, rtol=0, atol=ATOL, err_msg=name)


@needs_backend
def test_it_runs_on_a_backend(given) -> None:
    model, feeds = given
    prepared = backend.prepare(model)
    try:
        found = prepared.run([feeds[i.name] for i in model.graph.input])
    finally:
        prepared.close()
    for got, (name, want) in zip(found, run_peer(model, feeds).items(), strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=ATOL, err_msg=name)


def test_what_was_fused_gives_what_it_was_fused_from(read, run, tmp_path) -> None:
    for make in (bert, convolutional):
        model, feeds = make()
        (found,) = run(read(saved_by_runtime(model, tmp_path)), feeds).values()
        (wanted,) = run(read(model), feeds).values()
        np.testing.assert_allclose(found, wanted, rtol=0, atol=ATOL)
