"""The summary of a file of weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from small_graphs import convolution

from dovetail.api.inspection import WeightsReader, find_inspector
from dovetail.errors import FrontendError
from dovetail.ir import DType, TensorKind
from dovetail_qnn import QnnCppOptions, QnnJsonExporter, WeightsInspector


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    QnnJsonExporter().export(convolution(), tmp_path / "net_net.json", QnnCppOptions())
    return tmp_path / "net.bin"


def test_tensors_and_sizes_are_listed(weights: Path) -> None:
    inspector = find_inspector(weights)
    assert isinstance(inspector, WeightsInspector)
    found = inspector.summary(weights)
    static = [t for t in convolution().tensors.values() if t.data is not None]
    sizes = {t["name"]: t["bytes"] for t in found.data["tensors"]}
    assert list(sizes.values()) == [t.data.nbytes for t in static if t.data is not None]
    assert found.data["bytes"] == sum(sizes.values())
    for name in sizes:
        assert name in found.text


def test_weights_are_read_as_bytes(weights: Path) -> None:
    reader = find_inspector(weights)
    assert isinstance(reader, WeightsReader)
    found = reader.weights(weights)
    for name, tensor in found.items():
        wanted = convolution().tensor(name.replace("_", ".")).data
        assert (tensor.dtype, tensor.kind) == (DType.UINT_8, TensorKind.STATIC)
        assert tensor.data is not None
        assert wanted is not None
        assert tensor.data.bytes.tobytes() == wanted.bytes.tobytes()
    assert len(found) == 2


def test_other_files_are_not_recognised(weights: Path) -> None:
    inspector = WeightsInspector()
    other = weights.with_suffix(".tar")
    other.write_bytes(weights.read_bytes())
    (weights.parent / "short.bin").write_bytes(b"ustar")
    for path in (other, weights.parent / "short.bin", weights.parent, weights.parent / "none.bin"):
        assert not inspector.recognises(path)


@pytest.mark.parametrize("read", [WeightsInspector.summary, WeightsInspector.weights])
def test_a_damaged_file_is_an_error(weights: Path, read: Callable[..., object]) -> None:
    weights.write_bytes(weights.read_bytes()[:400])
    assert WeightsInspector().recognises(weights)
    with pytest.raises(FrontendError) as caught:
        read(WeightsInspector(), weights)
    assert caught.value.problems
