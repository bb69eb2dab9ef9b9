"""Parameters and thresholds of the verifiers."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from dovetail.errors import ConfigError
from dovetail.plugins import names
from dovetail.plugins.verifiers import parse_verifiers, verifier
from dovetail.verification import verifier_params

REFERENCE = {
    "RtolAtol": ["rtolmargin", "atolmargin"],
    "AdjustedRtolAtol": ["levels_num"],
    "TopK": ["k", "ordered"],
    "MeanIOU": ["background_classification"],
    "L1Error": ["multiplier", "scale"],
    "CosineSimilarity": ["multiplier", "scale"],
    "MSE": [],
    "SQNR": [],
    "MAE": [],
    "ScaledDiff": [],
}


def test_names_and_parameters_are_the_references() -> None:
    assert set(REFERENCE) <= set(names("dovetail.verifiers"))
    for name, params in REFERENCE.items():
        declared = [p.name for p in verifier_params(verifier(name).verifier)]
        assert declared == [*params, "threshold"]


CLASSES = np.arange(4)
GOLDEN, TARGET = np.array([1.0, 2, 4]), np.array([1.0, 2.5, 4])


@pytest.mark.parametrize(
    ("text", "value", "passed"),
    [
        ("RtolAtol,rtolmargin=0.2,atolmargin=0.1", 0, True),
        ("RtolAtol,rtolmargin=0.2,atolmargin=0.09", 100 / 3, False),
        ("RtolAtol,rtolmargin=0,atolmargin=0,threshold=40", 100 / 3, True),
        ("rtolatol,rtolmargin,0.01,atolmargin,0.6", 0, True),
        ("AdjustedRtolAtol,levels_num=8", 1, True),
        ("AdjustedRtolAtol,levels_num=16", 2, False),
        ("AdjustedRtolAtol,levels_num=16,threshold=2", 2, True),
        ("L1Error,multiplier=3,scale=2,threshold=0.75", 0.75, True),
        ("L1Error,multiplier=3,scale=2,threshold=0.74", 0.75, False),
        ("MAE,threshold=0.1", 0.5 / 3, False),
        ("MSE,threshold=0.1", 0.25 / 3, True),
        ("ScaledDiff,threshold=0.125", 0.125, True),
        ("ScaledDiff", 0.125, False),
        ("SQNR,threshold=19", 10 * np.log10(21 / 0.25), True),
        ("SQNR", 10 * np.log10(21 / 0.25), False),
        ("CosineSimilarity", 22 / np.sqrt(21 * 23.25), True),
        ("CosineSimilarity,multiplier=2,scale=4", 11 / np.sqrt(21 * 23.25), False),
        ("TopK,k=2,ordered=true", 100, True),
    ],
)
def test_thresholds_decide(text: str, value: float, passed: bool) -> None:
    (configured,) = parse_verifiers([text])
    found = configured.compare(GOLDEN, TARGET)
    assert found.value == pytest.approx(value, rel=1e-12)
    assert found.passed == passed


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("RtolAtol", {"rtolmargin": -1}),
        ("RtolAtol", {"threshold": 101}),
        ("AdjustedRtolAtol", {"levels_num": 0}),
        ("AdjustedRtolAtol", {"levels_num": 2.5}),
        ("TopK", {"k": 0}),
        ("TopK", {"ordered": 1}),
        ("L1Error", {"scale": 0}),
        ("CosineSimilarity", {"multiplier": -1}),
        ("SQNR", {"threshold": "30 dB"}),
        ("MeanIOU", {"background_classification": None}),
    ],
)
def test_values_out_of_range_are_rejected(name: str, params: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        verifier(name, params)
    assert next(iter(params)) in str(caught.value)


@pytest.mark.parametrize("name", REFERENCE)
def test_comparisons_are_plain_data(name: str) -> None:
    arrays = (
        [GOLDEN[None], TARGET[None]] if name != "MeanIOU" else [*[np.eye(4)] * 2, *[CLASSES] * 2]
    )
    found = verifier(name).compare(*arrays)
    plain = msgspec.to_builtins(found)
    assert (plain["name"], plain["elements"]) == (name, arrays[0].size)
    assert type(plain["passed"]) is bool
    assert all(type(v) in (int, float) for v in (plain["value"], *plain["details"].values()))
    if found.worst is not None:
        assert all(type(i) is int for i in plain["worst"]["index"])
    assert msgspec.json.encode(found)
