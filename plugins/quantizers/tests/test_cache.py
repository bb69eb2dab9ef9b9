"""Ranges kept from run to run: found again when nothing changed, and only then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from quantizing import dense, encoding, model_of

from dovetail.api.quantization import quantize_with_report
from dovetail.errors import QuantizationError
from dovetail.ir import Array, ScaleOffset

SAMPLES = np.linspace(-1, 1, 8, dtype=np.float32).reshape(4, 1, 2)
WEIGHT = np.eye(2, dtype=np.float32)


def run(
    path: Path, samples: Any = SAMPLES, weight: Array = WEIGHT, **options: Any
) -> tuple[ScaleOffset, bool]:
    """The encoding of the result, and whether it came from the cache."""
    made = quantize_with_report(
        model_of(dense(weight, None)), samples, calibration_cache=path, **options
    )
    kept = any("no sample was run" in note for note in made.report.notes)
    return encoding(made.model.graphs["net"], "y"), kept


def test_the_same_is_not_run_again(tmp_path: Path) -> None:
    path = tmp_path / "ranges.json"
    first, second = run(path), run(path)
    assert (first[1], second[1]) == (False, True)
    assert first[0] == second[0]


@pytest.mark.parametrize(
    "changed",
    [
        {"weight": 2 * WEIGHT},
        {"samples": SAMPLES[:3]},
        {"samples": 2 * SAMPLES},
        {"samples": np.concatenate([SAMPLES[:3], 2 * SAMPLES[3:]])},  # begins alike
        {"samples": SAMPLES[::-1]},
        {"act_quantizer_calibration": "percentile"},
        {"disable_relu_squashing": True},
    ],
)
def test_whatever_changes_is_run_anew(tmp_path: Path, changed: dict[str, Any]) -> None:
    path = tmp_path / "ranges.json"
    run(path)
    assert run(path, **changed)[1] is False
    assert run(path)[1] is True  # the first result is still there


def test_samples_that_pass_once_are_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "ranges.json"
    run(path, samples=iter(SAMPLES))
    assert not path.exists()


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", '{"version": 9}', '{"results": {"k": 1}}', "\xff"),
        pytest.param("[" * 100_000, id="deep"),
    ],
)
def test_another_file_is_refused_and_left(tmp_path: Path, text: str) -> None:
    path = tmp_path / "ranges.json"
    path.write_text(text, "latin-1")
    with pytest.raises(QuantizationError) as caught:
        run(path)
    assert str(path) in f"{caught.value.where} {caught.value.problems}"
    assert path.read_text("latin-1") == text
