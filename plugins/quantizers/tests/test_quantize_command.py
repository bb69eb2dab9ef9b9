"""`dovetail quantize`: what it writes and says, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from quantizing import dense, encoding, model_of, new_graph, output

import dovetail as dt
from dovetail.cli import main
from dovetail.ir import DType, ScaleOffset, Spec
from dovetail.ops import from_real
from dovetail_opset.build import add

RNG = np.random.default_rng(29)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With `net.dvt`, four raw files and their list."""
    monkeypatch.chdir(tmp_path)
    weight = RNG.standard_normal((3, 4)).astype(np.float32)
    model_of(dense(weight, np.ones(3, np.float32))).save("net.dvt")
    for i in range(4):
        RNG.standard_normal(4).astype("<f4").tofile(f"{i}.raw")
    Path("list.txt").write_text("".join(f"x:={i}.raw\n" for i in range(4)))
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["quantize", *arguments])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_the_list_calibrates(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "-i", "net.dvt", "--input_list", "list.txt", "--bias_bw", "32")
    assert (code, out) == (0, "")
    assert "4 samples" in err
    made = dt.load("net.quantized.dvt").graphs["net"]
    samples = np.stack([np.fromfile(f"{i}.raw", "<f4") for i in range(4)])
    wanted = dt.quantize("net.dvt", samples[:, None], bias_bitwidth=32).graphs["net"]
    for tensor in wanted.tensors.values():
        assert made.tensor(tensor.name).spec == tensor.spec
    assert made.tensor("b").dtype is DType.SFIXED_POINT_32


def test_the_summary_says_what_tensors_became(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, _, err = run(capsys, "-i", "net.dvt", "--input-list", "list.txt", "-o", "fixed.dvt")
    assert "net.dvt -> fixed.dvt: 5 of 5 tensors are fixed-point, 4 samples" in err
    _, _, err = run(capsys, "-i", "fixed.dvt", "--input-list", "list.txt", "-o", "again.dvt")
    assert "fixed.dvt -> again.dvt: no tensor quantized, 0 samples" in err
    _, _, err = run(capsys, "-i", "net.dvt", "--float-bitwidth", "16", "-o", "half.dvt")
    assert "0 of 5 tensors are fixed-point, 5 are float16" in err


def test_the_report(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "-i", "net.dvt", "--input-list", "list.txt", "--report")
    assert "clipped by Relu" in out
    code = main(["--json", "quantize", "-i", "net.dvt", "--input-list", "list.txt"])
    data: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert code == 0
    lines = {each["tensor"]: each for each in data["report"]["tensors"]["net"]}
    assert lines["fc"]["shared_with"] == "y"
    assert lines["w"]["role"] == "weight"
    assert data["report"]["samples"] == {"net": 4}


def test_encodings_that_are_dumped_make_the_same_model(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "-i", "net.dvt", "--input-list", "list.txt", "--dump-encoding-json", "--bias-bw=32")
    (dumped,) = folder.glob("*.encodings")
    code, _, err = run(
        capsys, "-i", "net.dvt", "-o", "again.dvt", "--float_fallback",
        "--quantization_overrides", str(dumped),
    )  # fmt: skip
    assert code == 0, err
    first, second = (dt.load(n).graphs["net"] for n in ("net.quantized.dvt", "again.dvt"))
    for tensor in first.tensors.values():
        assert second.tensor(tensor.name).spec == tensor.spec
        if tensor.kind.is_static:
            np.testing.assert_array_equal(second.tensor(tensor.name).stored(), tensor.stored())


@pytest.mark.parametrize(
    ("arguments", "scales"),
    [([], 1), (["true"], 3), (["TRUE"], 3), (["false"], 1)],
)
def test_per_row_weights_in_the_sdks_words(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], scales: int
) -> None:
    option = ["--use_per_row_quantization", *arguments] if arguments else []
    code, out, err = run(
        capsys, "-i", "net.dvt", *option, "--input_list", "list.txt", "--json",
        "--algorithms", "cle", "bias-correction",
    )  # fmt: skip
    assert code == 0, err
    lines = {each["tensor"]: each for each in json.loads(out)["report"]["tensors"]["net"]}
    assert lines["w"]["scales"] == scales


def test_every_wrong_value_is_told_at_once(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(
        capsys, "-i", "net.dvt", "--input-list", "list.txt", "--act_bw", "9", "--concat", "both",
        "--act_quantizer_calibration", "minmax", "--param_quantizer_calibration", "percentil",
    )  # fmt: skip
    assert code == 2
    for said in ("8, 16", "share, requantize", "'min-max'", "'percentile'"):
        assert said in err


def test_bad_lists_name_every_file_and_leave_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("1.raw").write_bytes(b"")
    Path("2.raw").write_bytes(b"12345")
    Path("3.raw").unlink()
    code, _, err = run(capsys, "-i", "net.dvt", "--input-list", "list.txt")
    assert code == 3
    assert all(f"{i}.raw" in err for i in (1, 2, 3))
    assert "0.raw" not in err
    assert not Path("net.quantized.dvt").exists()


def test_lines_that_select_outputs_name_what_is_there(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The SDK's quantizer takes such lines; here all tensors are calibrated in any case."""
    samples = Path("list.txt").read_text()
    Path("list.txt").write_text(f"#fc\n%y\n{samples}")
    assert run(capsys, "-i", "net.dvt", "--input-list", "list.txt")[0] == 0
    Path("net.quantized.dvt").unlink()
    Path("list.txt").write_text(f"#nodes\n%tensors x\n{samples}")
    code, _, err = run(capsys, "-i", "net.dvt", "--input-list", "list.txt")
    assert code == 3
    assert "list.txt:1: a # line selects nodes, but node 'nodes' not found" in err
    assert "list.txt:2: computed tensor 'tensors' not found" in err
    assert "list.txt:2: computed tensor 'x' not found" in err
    assert not Path("net.quantized.dvt").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--act_bw", "9"], "act_bitwidth"),
        (["-o", "net.xyz"], ".dvt"),
        (["--input-list", "list.txt,list.txt"], "2 input lists"),
        (["-o", "."], "use --output-path NAME.dvt"),
        (["-o", ".."], "use --output-path ../NAME.dvt"),
        (["--concat", "both"], "concat"),
        (["--algorithms", "cle", "cle"], "'cle' 2 times"),
        (["--use_per_row_quantization=maybe"], "true, false"),
        (["--restrict_quantization_steps", "0 9"], "quantization steps"),
    ],
)
def test_refusals(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    given = [] if "--input-list" in arguments else ["--input-list", "list.txt"]
    code, _, err = run(capsys, "-i", "net.dvt", *given, *arguments)
    assert code == 2
    assert said in err


def test_integer_inputs_are_read_natively(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    graph, x = new_graph((2,), DType.INT_32)
    from dovetail.ir import Spec

    real = add(graph, "Cast", [x], name="real", spec=Spec(DType.FLOAT_32, (2,)))
    output(add(graph, "ElementWiseNeg", [real], name="y"))
    model_of(graph).save("net.dvt")
    np.array([3, 5], "<i4").tofile("0.raw")
    Path("list.txt").write_text("0.raw\n")
    code, _, err = run(
        capsys, "-i", "net.dvt", "--input-list", "list.txt", "--use_native_input_files"
    )
    assert code == 0, err
    # -5 to 0, with points at whole numbers
    assert encoding(dt.load("net.quantized.dvt").graphs["net"], "y") == ScaleOffset(1 / 32, -160)


def test_the_float_model_is_not_replaced(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (folder / "net.dvt").read_bytes()
    code, _, err = run(capsys, "-i", "net.dvt", "--input-list", "list.txt", "-o", "./net.dvt")
    assert code == 2
    assert "overwrite its source" in err
    assert (folder / "net.dvt").read_bytes() == before


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize(
    "spec",
    [Spec(DType.UFIXED_POINT_8, (1, 4), ScaleOffset(0.03, -128)), Spec(DType.BFLOAT_16, (1, 4))],
)
def test_files_calibrate_inputs_of_every_type_like_arrays(
    spec: Spec, native: bool, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph, x = new_graph((1, 4), spec.dtype)
    x.encoding = spec.encoding
    op_type = "Convert" if spec.encoding is None else "Dequantize"
    real = add(graph, op_type, [x], name="real", spec=Spec(DType.FLOAT_32, (1, 4)))
    output(add(graph, "ElementWiseNeg", [real], name="y"))
    model = model_of(graph)
    samples = [np.fromfile(f"{i}.raw", "<f4")[None] for i in range(4)]
    if native:
        for i, sample in enumerate(samples):
            from_real(sample, spec).tofile(f"{i}.raw")
    model.save("typed.dvt")
    flag = ["--use-native-input-files"] if native else []
    code, _, err = run(
        capsys, "-i", "typed.dvt", "-o", "out.dvt", "--input-list", "list.txt", *flag
    )
    assert code == 0, err
    made, wanted = dt.load("out.dvt").graphs["net"], dt.quantize(model, samples).graphs["net"]
    assert {t.name: t.spec for t in made.tensors.values()} == {
        t.name: t.spec for t in wanted.tensors.values()
    }
    minimum = min(sample.min() for sample in samples)
    assert encoding(made, "y").scale * 255 > -minimum  # negative values count
