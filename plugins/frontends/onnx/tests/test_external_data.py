"""Weights in files of their own: mapped, checked, and kept inside the model's folder."""

from __future__ import annotations

import os

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from dovetail.container import MappedBlob
from dovetail.errors import FrontendError
from dovetail_onnx import OnnxFrontend

W = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def folder(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    return inside


def write(model, folder, **entries):
    """Write a model whose one weight names external data; return the model's path."""
    node = helper.make_node("Add", ["x", "w"], ["y"])
    made = model([node], {"x": np.ones((3, 4), np.float32)}, ["y"])
    tensor = TensorProto(name="w", dims=[3, 4], data_type=1, data_location=TensorProto.EXTERNAL)
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=str(value))
    made.graph.initializer.append(tensor)
    path = folder / "model.onnx"
    path.write_bytes(made.SerializeToString())
    return path


def refused(path) -> FrontendError:
    with pytest.raises(FrontendError) as caught:
        OnnxFrontend().read(path)
    assert caught.value.code == "MODEL_EXTERNAL_DATA"
    assert "tensor 'w'" in str(caught.value)
    return caught.value


@pytest.mark.parametrize("offset", [0, 4096, 3])
def test_it_is_found_wherever_it_begins(model, folder, offset) -> None:
    (folder / "w.bin").write_bytes(bytes(offset) + W.tobytes() + b"more")
    path = write(model, folder, location="w.bin", offset=offset, length=48)
    np.testing.assert_array_equal(OnnxFrontend().read(path)[0].tensor("w").values(), W)


def test_it_is_mapped_and_not_read(model, folder) -> None:
    (folder / "w.bin").write_bytes(W.tobytes())
    data = OnnxFrontend().read(write(model, folder, location="w.bin"))[0].tensor("w").data
    assert isinstance(data, MappedBlob)


def test_what_onnx_itself_writes(model, folder) -> None:
    made = model([helper.make_node("Add", ["x", "w"], ["y"])], {"x": W}, ["y"], {"w": W})
    path = folder / "model.onnx"
    onnx.save_model(made, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    np.testing.assert_array_equal(OnnxFrontend().read(path)[0].tensor("w").values(), W)


def test_a_folder_below_is_fine(model, folder) -> None:
    (folder / "data").mkdir()
    (folder / "data" / "w.bin").write_bytes(W.tobytes())
    (graph,) = OnnxFrontend().read(write(model, folder, location="data/w.bin"))
    np.testing.assert_array_equal(graph.tensor("w").values(), W)


def test_missing_short_and_contradictory_data(model, folder) -> None:
    assert "missing" in str(refused(write(model, folder, location="w.bin")))
    assert "names no file" in str(refused(write(model, folder)))
    (folder / "w.bin").write_bytes(W.tobytes()[:-1])
    assert "which has 47" in str(refused(write(model, folder, location="w.bin")))
    assert "the external data has 44 bytes, but type and shape take 48" in str(
        refused(write(model, folder, location="w.bin", length=44))
    )
    assert "offset '-4'" in str(refused(write(model, folder, location="w.bin", offset=-4)))
    (folder / "w.bin").write_bytes(b"")
    assert "which has 0" in str(refused(write(model, folder, location="w.bin")))
    (folder / "sub").mkdir()
    assert "missing" in str(refused(write(model, folder, location="sub")))


def test_nothing_outside_the_folder_is_touched(model, folder, tmp_path) -> None:
    outside = tmp_path / "w.bin"
    outside.write_bytes(W.tobytes())
    os.symlink(outside, folder / "link.bin")
    os.symlink(tmp_path, folder / "up")
    for location in ("../w.bin", str(outside), "link.bin", "up/w.bin", "a/../../w.bin"):
        assert "outside" in str(refused(write(model, folder, location=location)))
