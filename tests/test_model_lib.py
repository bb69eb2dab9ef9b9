"""Models in wheels and in files with the names of libraries."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import forked
import numpy as np
import pytest

import dovetail
from dovetail.api import export

EXAMPLE = Path(__file__).parents[1] / "examples" / "digits"
WHEEL = "dovetail_model_digits-1.0-py3-none-any.whl"


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with digits.dvt, digits.cpp and its weights, and an input."""
    folder = tmp_path_factory.mktemp("sources")
    model = dovetail.convert(EXAMPLE / "digits.onnx")
    model.save(folder / "digits.dvt")
    export(model, folder / "digits.cpp", "qnn-cpp")
    np.load(EXAMPLE / "heldout.npz")["images"][0].astype("<f4").tofile(folder / "a.raw")
    (folder / "a.txt").write_text("a.raw\n")
    return folder


def generate(arguments: str, folder: Path) -> None:
    done = forked.run(f"dovetail model-lib-generator {arguments}", folder)
    assert done.returncode == 0, done.stderr


def scores(model: str, sources: Path, folder: Path, path: Path | None = None) -> np.ndarray:
    done = forked.run(
        f"dovetail net-run --model {model} --input-list {sources}/a.txt --output-dir {folder}/out",
        folder,
        path=[] if path is None else [path],
    )
    assert done.returncode == 0, done.stderr
    return np.fromfile(folder / "out/Result_0/scores.raw", "<f4")


@pytest.mark.parametrize("source", ["digits.dvt", "digits.cpp"])
def test_an_installed_wheel_is_a_model(source: str, sources: Path, tmp_path: Path) -> None:
    generate(f"-c {sources}/{source} -l digits -o lib", tmp_path)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*command, "--target", "installed", f"lib/{WHEEL}"], cwd=tmp_path, check=True)
    installed = tmp_path / "installed"
    found = scores("digits", sources, tmp_path, installed)
    np.testing.assert_array_equal(found, scores(f"{sources}/digits.dvt", sources, tmp_path))
    for text in (
        'import dovetail as dt; print(*dt.load("digits").graphs)',
        'import dovetail as dt; print(*dt.Session("digits").graphs)',
    ):
        done = forked.run(["python", "-c", text], tmp_path, path=[installed])
        assert done.stdout.split() == ["digits"], done.stderr
    done = forked.run("dovetail plugins --group models --load", tmp_path, path=[installed])
    assert "dovetail-model-digits" in done.stdout
    assert " ok" in done.stdout
    # a file comes first, and a similar name is suggested
    (tmp_path / "digits").write_text("no model")
    done = forked.run("dovetail inspect digits", tmp_path, path=[installed])
    assert done.returncode == 3
    done = forked.run("dovetail inspect digit", tmp_path, path=[installed])
    assert done.returncode == 3
    assert "did you mean 'digits'?" in done.stderr


def test_a_wheel_is_the_same_each_time_and_its_record_is_right(
    sources: Path, tmp_path: Path
) -> None:
    for folder in ("one", "two"):
        generate(f"-c {sources}/digits.cpp -l digits -o {folder}", tmp_path)
    wheel = tmp_path / "one" / WHEEL
    assert wheel.read_bytes() == (tmp_path / "two" / WHEEL).read_bytes()
    with zipfile.ZipFile(wheel) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    record = "dovetail_model_digits-1.0.dist-info/RECORD"
    rows = list(csv.reader(io.StringIO(content[record].decode())))
    assert {row[0] for row in rows} == set(content)
    for name, digest, size in rows:
        if name == record:
            assert (digest, size) == ("", "")
            continue
        found = base64.urlsafe_b64encode(hashlib.sha256(content[name]).digest()).decode()
        assert digest == f"sha256={found.rstrip('=')}"
        assert int(size) == len(content[name])


def test_libraries_of_all_targets_are_models(sources: Path, tmp_path: Path) -> None:
    targets = '"aarch64-android x86_64-linux-clang x86_64-windows-msvc"'
    generate(f"-c {sources}/digits.cpp -b {sources}/digits.bin -t {targets} -o libs", tmp_path)
    libraries = (
        "aarch64-android/libdigits.so",
        "x86_64-linux-clang/libdigits.so",
        "x86_64-windows-msvc/digits.dll",
    )
    found = {str(p.relative_to(tmp_path / "libs")) for p in tmp_path.glob("libs/**/*.*")}
    assert found == {*libraries, WHEEL}
    expected = scores(f"{sources}/digits.dvt", sources, tmp_path)
    for library in libraries:
        assert dovetail.load(tmp_path / "libs" / library).graphs.keys() == {"digits"}
        np.testing.assert_array_equal(scores(f"libs/{library}", sources, tmp_path), expected)


def test_weights_may_be_elsewhere(sources: Path, tmp_path: Path) -> None:
    (tmp_path / "digits.cpp").write_bytes((sources / "digits.cpp").read_bytes())
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "w.bin").write_bytes((sources / "digits.bin").read_bytes())
    generate("-c digits.cpp -b far/w.bin -o lib", tmp_path)
    found = dovetail.load(tmp_path / "lib" / "aarch64-android" / "libw.so")
    assert found.graphs["digits"].nodes
    generate(f"-c {sources}/digits.dvt", tmp_path)
    assert (tmp_path / "lib" / "x86_64-linux-clang" / "libqnn_model.so").is_file()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ("-c none.cpp", 3, "No such file"),
        ("-c digits.cpp", 3, "digits.cpp"),  # without weights
        ("-c digits.cpp -b none.bin", 3, "none.bin"),
        ("-c digits.cpp -l ../up -t ../x", 2, "--lib-targets"),
        ("-c digits.cpp --package-version one", 2, "--package-version"),
        ("-c digits.cpp -t ''", 2, "no target"),
        ("-b digits.bin", 2, "-c"),
    ],
)
def test_refusals_leave_nothing(
    sources: Path, tmp_path: Path, arguments: str, code: int, said: str
) -> None:
    (tmp_path / "digits.cpp").write_bytes((sources / "digits.cpp").read_bytes())
    done = forked.run(f"dovetail model-lib-generator {arguments}", tmp_path)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["digits.cpp"]


def test_faults_name_the_files_that_were_passed(sources: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "other.bin", "w"):
        pass
    (tmp_path / "text.bin").write_text("no tar")
    for name, said in (("other", "no data in other.bin for"), ("text", "  - text.bin: ")):
        arguments = f"-c {sources}/digits.cpp -b {name}.bin -o lib"
        done = forked.run(f"dovetail model-lib-generator {arguments}", tmp_path)
        assert done.returncode == 3
        assert f"{sources}/digits.cpp: the model has faults" in done.stderr
        assert said in done.stderr
        assert "digits.bin" not in done.stderr


def test_a_compiled_library_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "libnet.so").write_bytes(b"\x7fELF" + bytes(60))
    (tmp_path / "a.txt").write_text("a.raw\n")
    for command in (
        "net-run --model libnet.so --input-list a.txt",
        "context-binary-generator --model libnet.so",
        "convert -i libnet.so",
        "model-lib-generator -c libnet.so",
        "inspect libnet.so",
    ):
        done = forked.run(f"dovetail --json {command}", tmp_path)
        assert done.returncode == 3
        error = json.loads(done.stderr)["error"]
        assert error["code"] == "MODEL_FOREIGN"
        assert "model-lib-generator -c model.cpp" in error["hint"]
