"""The commands with the files of QNN's converters: what runs is what was exported."""

from __future__ import annotations

import subprocess
from pathlib import Path

import forked
import numpy as np
import onnx
import pytest

ROOT = Path(__file__).parents[1]
DIGITS = ROOT / "examples" / "digits"
STYLE = ("--exporter-option", "op_style=2.18")


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return forked.run(["dovetail", *arguments], folder)


def output(folder: Path, *arguments: str) -> np.ndarray:
    done = run(folder, "net-run", *arguments, "--input-list", "list.txt", "--output-dir", "out")
    assert done.returncode == 0, done.stderr
    return np.fromfile(folder / "out" / "Result_0" / "scores.raw", np.float32)


@pytest.mark.parametrize("backend", ["cpu", "htp"])
def test_a_quantized_network_runs_from_the_files(tmp_path: Path, backend: str) -> None:
    images = np.load(DIGITS / "heldout.npz")["images"][:4].astype("<f4") / 16
    for i, image in enumerate(images):
        image.tofile(tmp_path / f"{i}.raw")
    (tmp_path / "list.txt").write_text("".join(f"image:={i}.raw\n" for i in range(4)), "utf-8")
    digits = str(DIGITS / "digits.onnx")
    shape = ("--input-dim", "image", "1,1,8,8")
    for arguments in (
        ("convert", "-i", digits, *shape, "--input-list", "list.txt", "-o", "d.dvt"),
        ("export", "d.dvt", "-o", "d_net.json", "-f", "qnn-json"),
        ("convert", "--input-network", "d_net.json", "-o", "again.dvt"),
        ("export", "d_net.json", "-o", "cpp.cpp", "-f", "qnn-cpp", *STYLE),
    ):
        done = run(tmp_path, *arguments)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "d.bin").is_file()
    expected = output(tmp_path, "--model", "d.dvt", "--backend", backend)
    for model in ("d_net.json", "again.dvt", "cpp.cpp", "cpp_net.json"):
        found = output(tmp_path, "--model", model, "--backend", backend)
        assert np.array_equal(found, expected)


def test_graphs_keep_their_names(tmp_path: Path) -> None:
    digits = str(DIGITS / "digits.onnx")
    assert run(tmp_path, "export", digits, "-o", "net.cpp", "-f", "qnn-cpp").returncode == 0
    done = run(tmp_path, "inspect", "net.cpp")
    assert done.returncode == 0, done.stderr
    assert "graph digits:" in done.stdout


def test_another_json_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"a": 1}', "utf-8")
    done = run(tmp_path, "convert", "-i", "config.json", "-o", "x.dvt")
    assert done.returncode == 3
    assert "not a network of QNN's converters" in done.stderr
    assert "MODEL_net.json" in done.stderr


def test_options_of_an_exporter(tmp_path: Path) -> None:
    """Each changes the file, and what the model says of itself is in it."""
    digits = str(DIGITS / "digits.onnx")
    (tmp_path / "note.txt").write_text("by us", "utf-8")
    said = ("--copyright-file", "note.txt", "--model-version", "3")
    options = ("--op-style", "2.18", "--package-name", "my.ops")
    flags = ("--exclude-named-tensors", "--overwrite-model-prefix")
    done = run(tmp_path, "convert", "-i", digits, "-o", "net.cpp", *said, *options, *flags)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "net.cpp").read_text("utf-8")
    assert text.startswith("// Copyright:\n//   by us\n// Model version: 3\n")
    assert "net_composeGraphs(" in text
    assert '"my.ops", "Conv2d"' in text
    assert "QNN_TENSOR_VERSION_1" in text
    assert "addTensor_" not in text
    assert '.name= "_0"' in text
    assert run(tmp_path, "convert", "-i", digits, "-o", "net.dvt", *said).returncode == 0
    done = run(tmp_path, "export", "net.dvt", "-o", "net.onnx", "--exporter-option", "copyright=me")
    assert done.returncode == 0, done.stderr
    metadata = {p.key: p.value for p in onnx.load(tmp_path / "net.onnx").metadata_props}
    assert metadata == {"model_version": "3", "copyright": "me"}


@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        (
            ("convert", "-o", "x.dlc", "--overwrite-model-prefix", "--exporter-option", "a"),
            ("--exporter-option: expected NAME=VALUE", "has no option 'overwrite_model_prefix'"),
        ),
        (
            ("convert", "-o", "x.dvt", "-p", "my.ops", "--exporter-option", "a=1"),
            ("--exporter-option a, --package-name: a .dvt takes no options",),
        ),
        (
            ("convert", "-o", "x.cpp", "-p", "p", "--exporter-option", "package-name=q"),
            ("package_name: given twice",),
        ),
        (
            ("export", "-o", "x.cpp", "-f", "qnn-cpp", "--exporter-option", "op_style=2.19"),
            ("unsupported value '2.19'; expected 2.18 or 2.27",),
        ),
        (
            ("export", "-o", "x.cpp", "-f", "qnn-cpp", "--external-data"),
            ("the exporter 'qnn-cpp' has no option 'external_data'",),
        ),
    ],
)
def test_wrong_options_of_an_exporter(
    tmp_path: Path, arguments: tuple[str, ...], texts: tuple[str, ...]
) -> None:
    command, *rest = arguments
    done = run(tmp_path, command, str(DIGITS / "digits.onnx"), *rest)
    assert done.returncode == 2, done.stderr
    assert all(text in done.stderr for text in texts), done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_weights_is_compared_by_the_types_of_the_model(tmp_path: Path) -> None:
    """The file says neither types nor shapes, and has names of C++."""
    for name in ("net.cpp", "net.dvt"):
        assert run(tmp_path, "convert", str(DIGITS / "digits.onnx"), "-o", name).returncode == 0
    for pair in (("net.bin", "net.cpp"), ("net.dvt", "net.bin")):
        done = run(tmp_path, "weights", "compare", *pair, "--check")
        assert done.returncode == 0, done.stdout
    content = bytearray((tmp_path / "net.bin").read_bytes())
    content[600] ^= 0x40  # in the data of the first tensor
    (tmp_path / "net.bin").write_bytes(content)
    done = run(tmp_path, "weights", "compare", "net.bin", "net.dvt", "--check")
    assert done.returncode == 1
    assert "UINT_8" not in done.stdout
    shown = run(tmp_path, "inspect", "net.bin")
    assert shown.stdout.startswith("net.bin: weights of "), shown.stderr
