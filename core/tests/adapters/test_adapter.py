"""Adapters: what their files say, matched with the updateable tensors of a graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reference_backend import OPS

from dovetail.adapters import Adapter, AdapterUse, read_adapter, updates_of, write_safetensors
from dovetail.adapters.adapter import IN_GRAPH_LAYOUT, SCALED
from dovetail.errors import ConfigError, FrontendError, QuantizationError
from dovetail.ir import AxisScaleOffset, DType, Graph, ScaleOffset, Tensor, TensorKind, pack

W = np.arange(6, dtype=np.float32).reshape(2, 3)


class Halves:
    """A quantizer with one rule: a scale of a half."""

    def read_encodings(self, path: Path, graph: Graph, ops: Any) -> dict[str, Any]:
        return {"q": ScaleOffset(0.25, -8)}

    def encoding_for(self, tensor: Tensor, values: Any) -> ScaleOffset:
        return ScaleOffset(0.5, 0)


def graph(**changes: Any) -> Graph:
    """w, (3, 2), is stored transposed; q is fixed-point."""
    made = Graph("net")
    kind = TensorKind.UPDATEABLE_STATIC
    w = Tensor.static("w", W.T.copy(), source="source.w", source_perm=(1, 0))
    q = Tensor.static(
        "q", np.zeros(2, np.uint8), DType.UFIXED_POINT_8, encoding=ScaleOffset(1.0, -1)
    )
    for tensor in (w, q):
        tensor.kind = kind
        made.add_tensor(tensor)
    made.add_tensor(Tensor.static("fixed", W))
    return made


def adapter(arrays: dict[str, Any] | None = None, **fields: Any) -> Adapter:
    given = {"source.w": W + 1, "q": np.float32([1, 2])} if arrays is None else arrays
    return Adapter("a", given, "a.safetensors", **fields)


def updated(found: Any) -> dict[str, Any]:
    return {u.tensor.name: (u.data, u.encoding) for u in found.tensors}


def test_weights_get_the_layout_and_the_type_of_the_graph() -> None:
    found = updated(updates_of(graph(), adapter(), OPS, Halves()))
    np.testing.assert_array_equal(found["w"][0], (W + 1).T)
    assert found["w"][1] is None
    np.testing.assert_array_equal(found["q"][0], [2, 4])
    assert found["q"][1] == ScaleOffset(0.5, 0)


def test_the_layout_of_the_graph_is_taken_as_it_is() -> None:
    arrays = {"w": np.float64(W.T), "q": np.uint8([7, 9])}
    made = adapter(arrays, in_graph_layout=True, keeps_encodings=True)
    found = updated(updates_of(graph(), made, OPS))
    np.testing.assert_array_equal(found["w"][0], W.T)
    assert found["w"][0].dtype == np.float32
    np.testing.assert_array_equal(found["q"][0], [7, 9])
    assert found["q"][1] == ScaleOffset(1.0, -1)


def test_stored_integers_refer_to_the_encodings_of_the_model_itself() -> None:
    changed = graph()
    changed.tensor("q").encoding = ScaleOffset(8.0, -3)  # of another adapter
    made = adapter({"source.w": W, "q": np.uint8([7, 9])}, keeps_encodings=True)
    own = {"q": ScaleOffset(1.0, -1)}
    found = updated(updates_of(changed, made, OPS, own_encodings=own))
    np.testing.assert_array_equal(found["q"][0], [7, 9])
    assert found["q"][1] == own["q"]


def test_given_encodings_win_and_values_beyond_them_are_noted() -> None:
    made = adapter({"source.w": W, "q": np.float32([1, 900])}, encodings=Path("e"))
    found = updates_of(graph(), made, OPS, Halves())
    assert updated(found)["q"][1] == ScaleOffset(0.25, -8)
    np.testing.assert_array_equal(updated(found)["q"][0], [12, 255])
    assert found.notes == ("1 of 2 values of 'q' are beyond the range of its encoding",)


def test_encodings_alone() -> None:
    made = adapter(encodings=Path("e"), has_weights=False)
    assert updated(updates_of(graph(), made, OPS, Halves())) == {"q": (None, ScaleOffset(0.25, -8))}


@pytest.mark.parametrize("scale", [0.5, 2.0, -1.0, 0.0])
def test_a_scale_multiplies_the_second_factors(scale: float) -> None:
    made = adapter(scaled=frozenset(["source.w"]))
    found = updated(updates_of(graph(), made, OPS, Halves(), scale=scale))
    np.testing.assert_array_equal(found["w"][0], (W + 1).T * np.float32(scale))
    np.testing.assert_array_equal(found["q"][0], [2, 4])


def test_a_scale_of_stored_integers_goes_into_the_encoding() -> None:
    arrays = {"source.w": W, "q": np.uint8([7, 9])}
    made = adapter(arrays, scaled=frozenset(["q"]), encodings=Path("e"))
    found = updated(updates_of(graph(), made, OPS, Halves(), scale=2.0))
    np.testing.assert_array_equal(found["q"][0], [7, 9])
    assert found["q"][1] == ScaleOffset(0.5, -8)


def test_an_adapter_that_does_not_say_what_to_scale() -> None:
    with pytest.raises(ConfigError, match="which weights to multiply"):
        updates_of(graph(), adapter(), OPS, Halves(), scale=2.0)
    names = {"a.lora_A.weight": W, "a.lora_B.weight": W}
    assert adapter(names).strength_names(2.0) == {"a.lora_B.weight"}


def test_every_mismatch_is_listed() -> None:
    arrays = {"source.w": W.T, "fixd": W, "Q": np.int32([1, 2])}
    with pytest.raises(FrontendError, match="does not match graph 'net'") as caught:
        updates_of(graph(), adapter(arrays), OPS, Halves())
    told = [str(problem) for problem in caught.value.problems]
    assert any("'fixd'" in text and "no such updateable tensor" in text for text in told)
    assert any("'Q'" in text and "did you mean 'q'" in text for text in told)
    assert any("expected shape (2, 3), got (3, 2)" in text for text in told)
    assert any("'q'" in text and "missing" in text for text in told)


def test_integers_of_another_type_are_rejected() -> None:
    with pytest.raises(FrontendError) as caught:
        updates_of(graph(), adapter({"source.w": W, "q": np.int8([1, 2])}), OPS, Halves())
    assert "expected real values or UFIXED_POINT_8, got int8" in str(caught.value.problems[0])


def test_encodings_need_a_quantizer() -> None:
    with pytest.raises(QuantizationError, match="no quantizer"):
        updates_of(graph(), adapter(), OPS)


def test_encodings_of_axes_are_scaled() -> None:
    made = graph()
    q = made.tensor("q")
    q.encoding = AxisScaleOffset(0, np.float32([1, 2]), None)
    q.dtype, q.data = DType.SFIXED_POINT_8, pack(np.int8([1, 1]), DType.SFIXED_POINT_8)
    given = adapter({"source.w": W, "q": np.int8([3, 4])}, scaled=frozenset(["q"]))

    class Same(Halves):
        def encoding_for(self, tensor: Tensor, values: Any) -> Any:
            np.testing.assert_array_equal(values, [6, 16])
            return AxisScaleOffset(0, np.float32([6, 8]), None)

    found = updated(updates_of(made, given, OPS, Same(), scale=2.0))
    np.testing.assert_array_equal(found["q"][0], [1, 2])


def test_a_file_says_its_layout_and_factors(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    write_safetensors(path, {"w": W, "q": W}, {IN_GRAPH_LAYOUT: "true", SCALED: "q\nw"})
    found = read_adapter(path)
    assert (found.name, found.in_graph_layout) == ("a", True)
    assert found.scaled == {"q", "w"}
    use = AdapterUse(name="b", weights=str(path), encodings="e", weights_only=True)
    assert read_adapter(use).encodings is None
    assert read_adapter(use).keeps_encodings


def test_names_are_mapped(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    write_safetensors(path, {"w": W, "q": W}, {SCALED: "q"})
    found = read_adapter(path, {"q": "new"})
    assert found.arrays.keys() == {"w", "new"}
    assert found.scaled == {"new"}
    with pytest.raises(ConfigError, match="unknown names x"):
        read_adapter(path, {"x": "y"})
    with pytest.raises(ConfigError, match="two tensors get one name"):
        read_adapter(path, {"q": "w"})
