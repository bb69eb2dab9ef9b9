"""What raw files hold: float32, or the graph's own types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import net_run

from dovetail.ir import DType, Encoding, ScaleOffset, Tensor


@pytest.fixture
def negate(new_net: Any) -> Any:
    def save(dtype: DType, encoding: Encoding | None = None) -> None:
        net = new_net()
        x = net.input("x", 4, dtype=dtype, encoding=encoding)
        net.save(net.node("ElementWiseNeg", x, name="y"))

    return save


@pytest.mark.parametrize(
    ("dtype", "native"),
    [
        (DType.INT_32, "<i4"),
        (DType.INT_64, "<i8"),
        (DType.FLOAT_16, "<f2"),
        (DType.FLOAT_64, "<f8"),
        (DType.INT_8, "i1"),
    ],
)
def test_float_files_and_native_files(
    negate: Any, run: Any, raw: Any, listing: Any, result: Any, dtype: DType, native: str
) -> None:
    negate(dtype)
    raw("float.raw", np.array([-2, 0, 3, 100], "<f4"))
    raw("native.raw", np.array([-2, 0, 3, 100], native).view("u1"))
    expected = [2, 0, -3, -100]
    listing("float.raw")
    assert net_run(run).code == 0
    assert [p.name for p in Path("output/Result_0").iterdir()] == ["y.raw"]
    assert result("y.raw").tolist() == expected
    listing("native.raw")
    assert net_run(run, "--use_native_input_files", "--use_native_output_files").code == 0
    assert [p.name for p in Path("output/Result_0").iterdir()] == ["y_native.raw"]
    assert result("y_native.raw", native).tolist() == expected
    assert net_run(run, "--native-input-tensor-names", "x").code == 0
    assert result("y.raw").tolist() == expected


@pytest.mark.parametrize(
    ("dtype", "stored", "hint"),
    [
        (DType.INT_32, "<i8", "the size fits 64-bit integers: save them as INT_32"),
        (DType.INT_64, "<i4", "without the native options; save integers as INT_64"),
        (DType.FLOAT_16, "<f4", "read the file without the native options"),
    ],
)
def test_integers_of_another_width_are_named(
    negate: Any, run: Any, raw: Any, listing: Any, dtype: DType, stored: str, hint: str
) -> None:
    negate(dtype)
    raw("a.raw", np.array([-2, 0, 3, 100], stored).view("u1"))
    listing("a.raw")
    done = net_run(run, "--use_native_input_files")
    assert done.code == 3
    (problem,) = done.error["problems"]
    assert problem["hint"].endswith(hint)


def test_float32_is_native_already(
    two_steps: str, run: Any, raw: Any, listing: Any, result: Any
) -> None:
    raw("a.raw", np.arange(6.0))
    listing("a.raw")
    assert net_run(run, "--use-native-output-files", "--use-native-input-files").code == 0
    assert [p.name for p in Path("output/Result_0").iterdir()] == ["y.raw"]


def test_fixed_point_inputs_are_quantized_and_outputs_dequantized(
    negate: Any, run: Any, raw: Any, listing: Any, result: Any
) -> None:
    # real = (stored - 8) / 4
    negate(DType.UFIXED_POINT_8, ScaleOffset(0.25, -8))
    raw("float.raw", np.array([-1.0, 0.0, 0.3, 2.0], "<f4"))
    raw("native.raw", np.array([4, 8, 9, 16], "u1"))
    listing("float.raw")
    assert net_run(run).code == 0
    real = result("y.raw").tolist()
    assert net_run(run, "--use-native-output-files").code == 0
    stored = result("y_native.raw", "u1")
    assert stored.tolist() == [12, 8, 7, 0]
    assert real == ((stored.astype("f4") - 8) / 4).tolist()
    listing("native.raw")
    assert net_run(run, "--use-native-input-files", "--use-native-output-files").code == 0
    np.testing.assert_array_equal(result("y_native.raw", "u1"), stored)


@pytest.mark.parametrize("mode", [[], ["--debug"]])
def test_both_forms_of_each_tensor(
    new_net: Any, run: Any, raw: Any, listing: Any, result: Any, mode: list[str]
) -> None:
    net, steps = new_net(), ScaleOffset(0.25, -8)
    x = net.input("x", 4, dtype=DType.UFIXED_POINT_8, encoding=steps)
    middle = net.node("Relu", x, name="middle")
    net.save(net.node("Dequantize", middle, name="y", out=Tensor("y", DType.FLOAT_32, (4,))))
    raw("a.raw", np.array([-1.0, 0.0, 0.3, 2.0], "<f4"))
    listing("a.raw")
    assert net_run(run, *mode, "--output_data_type", "float_and_native").code == 0
    files = {"y.raw"} | ({"middle.raw", "middle_native.raw"} if mode else set())
    assert {p.name for p in Path("output/Result_0").iterdir()} == files
    assert result("y.raw").tolist() == [0, 0, 0.25, 2]
    if mode:
        assert result("middle.raw").tolist() == [0, 0, 0.25, 2]
        assert result("middle_native.raw", "u1").tolist() == [8, 8, 9, 16]
        listed = Path("output/execution_metadata.yaml").read_text("utf-8")
        assert listed.count("file: ") == 3
    assert net_run(run, *mode, "--output-data-type", "native_only").code == 0
    files = {"y.raw"} | ({"middle_native.raw"} if mode else set())
    assert {p.name for p in Path("output/Result_0").iterdir()} == files


def test_native_inputs_by_graph(
    new_net: Any, run: Any, raw: Any, listing: Any, result: Any
) -> None:
    for name in ("one", "two"):
        net = new_net(name)
        net.save(net.node("ElementWiseNeg", net.input("x", 2, dtype=DType.INT_8), name="y"))
    raw("float.raw", np.array([-2, 3], "<f4"))
    raw("native.raw", np.array([-2, 3], "i1").view("u1"))
    for name, content in (("one", "native.raw"), ("two", "float.raw")):
        listing(content, path=f"{name}.txt")

    def ran(names: str) -> Any:
        lists = ("--input-list", "one.txt,two.txt")
        given = ("--model", "one.dvt,two.dvt", *lists, "--native-input-tensor-names", names)
        return run("--json", "net-run", *given)

    assert ran("one:x").code == 0
    for folder in ("output/one", "output/two"):
        assert result("y.raw", folder=folder).tolist() == [2, -3]
    assert ran("x").code == 3  # the second list has float32
    wrong = ran("one:xx;z")
    assert wrong.code == 2
    assert wrong.err.count("not found") == 2


@pytest.mark.parametrize(
    ("dtype", "encoding", "stored"),
    [
        (DType.SFIXED_POINT_4, ScaleOffset(0.5), np.array([-8, 7, 1], "i1")),
        (DType.BFLOAT_16, None, np.array([0xC080, 0x4060, 0x3F00], "<u2")),
    ],
)
def test_types_that_numpy_lacks(
    new_net: Any,
    run: Any,
    raw: Any,
    listing: Any,
    result: Any,
    dtype: DType,
    encoding: Encoding | None,
    stored: Any,
) -> None:
    """Native files hold one item a value: of 4-bit types one in each byte."""
    net = new_net()
    x = net.input("x", 1, 3, dtype=dtype, encoding=encoding)
    out = Tensor("y", dtype, (3, 1), encoding=encoding)
    net.save(net.node("Transpose", x, name="y", out=out, perm=[1, 0]))
    raw("float.raw", np.array([-4, 3.5, 0.5], "<f4"))
    raw("native.raw", stored)
    for name, options in (("float.raw", []), ("native.raw", ["--use-native-input-files"])):
        listing(name)
        assert net_run(run, *options).code == 0
        assert result("y.raw").tolist() == [-4, 3.5, 0.5]
        assert net_run(run, *options, "--use-native-output-files").code == 0
        np.testing.assert_array_equal(result("y_native.raw", stored.dtype), stored)


def test_bools(new_net: Any, run: Any, raw: Any, listing: Any, result: Any) -> None:
    net = new_net()
    x = net.input("x", 2, 2, dtype=DType.BOOL_8)
    net.save(net.node("Transpose", x, name="y", perm=[1, 0]))
    raw("float.raw", np.array([1, 1, 0, 0], "<f4"))
    listing("float.raw")
    assert net_run(run).code == 0
    assert result("y.raw").tolist() == [1, 0, 1, 0]
    raw("native.raw", np.array([1, 1, 0, 0], "u1"))
    listing("native.raw")
    assert net_run(run, "--use-native-input-files", "--use-native-output-files").code == 0
    assert result("y_native.raw", "u1").tolist() == [1, 0, 1, 0]
    raw("native.raw", np.array([1, 1, 2, 0], "u1"))
    done = net_run(run, "--use-native-input-files")
    assert done.code == 3
    assert "value 2 of the file is 2, which type BOOL_8 of input 'x' cannot represent" in done.err


@pytest.mark.parametrize(
    ("dtype", "values", "at"),
    [
        (DType.INT_32, [0, 1, 2, 0.5], 3),
        (DType.INT_32, [0, np.nan, 2, 3], 1),
        (DType.INT_32, [0, 1, 2.0**31, 3], 2),
        (DType.INT_32, [0, 1, 2, np.inf], 3),
        (DType.INT_64, [2.0**63, 0, 0, 0], 0),
        (DType.INT_8, [0, -129, 0, 0], 1),
    ],
)
def test_integers_that_the_input_cannot_hold_are_refused(
    negate: Any, run: Any, raw: Any, listing: Any, dtype: DType, values: list[float], at: int
) -> None:
    negate(dtype)
    raw("good.raw", np.array([0, 1, 2, 3], "<f4"))
    raw("bad.raw", np.array(values, "<f4"))
    listing("good.raw", "bad.raw")
    done = net_run(run)
    assert (done.code, done.error["code"], done.error["where"]) == (3, "INPUT_INVALID", "bad.raw")
    assert f"value {at} of the file" in done.error["message"]
    assert not Path("output").exists()


def test_the_least_integer_is_taken(
    new_net: Any, run: Any, raw: Any, listing: Any, result: Any
) -> None:
    net = new_net()
    x = net.input("x", 1, 1, dtype=DType.INT_32)
    net.save(net.node("Transpose", x, name="y", perm=[1, 0]))
    raw("a.raw", np.array([-(2.0**31)], "<f4"))
    listing("a.raw")
    assert net_run(run, "--use-native-output-files").code == 0
    assert result("y_native.raw", "<i4").tolist() == [-(2**31)]


def test_int32_bits_read_as_float_are_recognised(
    negate: Any, run: Any, raw: Any, listing: Any
) -> None:
    negate(DType.INT_32)
    raw("native.raw", np.array([1, 2, 3, 4], "<i4"))
    listing("native.raw")
    done = net_run(run)
    assert done.code == 3
    assert "--native-input-tensor-names x" in done.error["hint"]


def test_values_beyond_half_precision_are_infinite(
    negate: Any, run: Any, raw: Any, listing: Any, result: Any
) -> None:
    negate(DType.FLOAT_16)
    raw("a.raw", np.array([1e6, -1e6, 1, np.nan], "<f4"))
    listing("a.raw")
    assert net_run(run).code == 0
    np.testing.assert_array_equal(result("y.raw"), [-np.inf, np.inf, -1, np.nan])


def test_empty_and_scalar_inputs(
    new_net: Any, run: Any, raw: Any, listing: Any, result: Any
) -> None:
    net = new_net()
    empty = net.node("ElementWiseNeg", net.input("e", 0, 3), name="none")
    scalar = net.node("ElementWiseNeg", net.input("s"), name="one")
    net.save(empty, scalar)
    raw("e.raw", np.zeros(0))
    raw("s.raw", np.array(7.0))
    listing("e:=e.raw s:=s.raw")
    done = net_run(run)
    assert done.code == 0, done.err
    assert result("none.raw").size == 0
    assert result("one.raw").tolist() == [-7]


def test_unknown_native_names_are_refused(two_steps: str, run: Any, raw: Any, listing: Any) -> None:
    raw("a.raw", np.zeros(6))
    listing("a.raw")
    done = net_run(run, "--native-input-tensor-names", "xx")
    assert done.code == 2
    assert "input 'xx' not found" in done.err
