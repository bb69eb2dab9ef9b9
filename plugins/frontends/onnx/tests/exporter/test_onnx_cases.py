"""ONNX's own node tests, there and back: converted, exported, and run on ONNX Runtime."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
from exported import export, run
from onnx_cases import Case, load_cases

from dovetail.errors import DovetailError
from dovetail.ir import Array
from dovetail_onnx import OnnxFrontend
from dovetail_onnx._dtypes import as_bytes

# One of so many is tried: all of them, 1360 that can be converted without knowing values, take a
# minute, and gave their answers when this was written but for those below.
EVERY = 8
# Numbers that are drawn, powers beyond the integers of ONNX's Pow, and what NumPy cannot hold.
LEFT_OUT = ("bernoulli", "bitshift", "_BFLOAT16")
SAMPLE = [
    case
    for case in load_cases()
    if case.kind != "real" and not any(part in case.name for part in LEFT_OUT)
][::EVERY]


@pytest.mark.parametrize("case", SAMPLE, ids=lambda case: case.name)
def test_case(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "case.onnx"
    path.write_bytes(case.model.SerializeToString())
    logging.disable(logging.WARNING)  # about dimensions that the tests leave open
    try:
        (graph,) = OnnxFrontend().read(path)
    except DovetailError:
        pytest.skip("the frontend does not convert it")  # whose own tests say which these are
    finally:
        logging.disable(logging.NOTSET)
    model = export(graph, tmp_path / "exported.onnx")
    for inputs, wanted in case.data_sets():
        fixed = {initializer.name for initializer in case.model.graph.initializer}
        names = [i.name for i in case.model.graph.input if i.name not in fixed]
        # a graph has integers of 4 bits in bytes, and so has the model that is written of it
        feeds = {n: as_bytes(np.asarray(a)) for n, a in zip(names, inputs, strict=False)}
        used = {i.name for i in model.graph.input}
        found = run(model, {n: a for n, a in feeds.items() if n in used})
        for ours, theirs in zip(found, wanted, strict=True):
            assert_same(ours, as_bytes(np.asarray(theirs)), case)


def assert_same(found: Array, wanted: Array, case: Case) -> None:
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    # sixteen roundings of 16-bit floats; else what ONNX's own runner allows
    rtol, atol = case.given.rtol, max(case.given.atol, 1e-6)
    if wanted.dtype == np.float16:
        rtol = atol = 2**-7
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=atol)
