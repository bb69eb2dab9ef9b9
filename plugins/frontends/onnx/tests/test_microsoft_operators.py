"""The operators of the domain com.microsoft against ONNX Runtime's kernels."""

from __future__ import annotations

import pytest
from microsoft_cases import Case, assert_like, load_cases, run_peer
from runtime import skip_if_integer_kernels_saturate

from dovetail_onnx.operators import MICROSOFT

CASES = load_cases()
# Operators whose kernels no option of ONNX Runtime replaces by exact ones.
SATURATING = ("QLinearConv",)


@pytest.mark.parametrize("given", CASES, ids=[case.name for case in CASES])
def test_it_gives_what_onnx_runtime_gives(read, evaluate, given: Case) -> None:
    if given.op_type in SATURATING:
        skip_if_integer_kernels_saturate()
    model = given.model
    assert_like(given, evaluate(read(model), given.feeds), run_peer(model, given.feeds))


def test_every_operator_has_a_case() -> None:
    # see test_dropout and test_microsoft_diffusion
    without_a_kernel = {"BiasDropout", "BiasAdd", "BiasSplitGelu", "GroupNorm", "SkipGroupNorm"}
    without_a_kernel |= {"NhwcConv", "NhwcFusedConv"}
    assert set(MICROSOFT.operators) - without_a_kernel <= {case.op_type for case in CASES}


def test_names_are_unique() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
