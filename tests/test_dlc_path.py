"""`--dlc-path`: DLC files as the SDK's tools take them."""

from __future__ import annotations

import json
from pathlib import Path

import forked
import numpy as np

from dovetail import convert
from dovetail.api import export

EXAMPLE = Path(__file__).parents[1] / "examples" / "digits"


def test_net_run_reads_dlc_files(tmp_path: Path) -> None:
    for name in ("one", "two"):
        export(convert(EXAMPLE / "digits.onnx", name=name), tmp_path / f"{name}.dlc", "dlc")
    np.load(EXAMPLE / "heldout.npz")["images"][0].astype("<f4").tofile(tmp_path / "a.raw")
    (tmp_path / "a.txt").write_text("a.raw\n")
    lists = "--input_list a.txt,a.txt"
    for given in ("", "--model /sdk/lib/libQnnModelDlc.so"):
        done = forked.run(
            f"dovetail --json net-run {given} --dlc_path one.dlc,two.dlc {lists}", tmp_path
        )
        assert done.returncode == 0, done.stderr
        assert [g["graph"] for g in json.loads(done.stdout)["graphs"]] == ["one", "two"]
    scores = [
        np.fromfile(tmp_path / f"output/{name}/Result_0/scores.raw", "<f4")
        for name in ("one", "two")
    ]
    np.testing.assert_array_equal(*scores)


def test_other_files_are_not_read_as_dlc_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a.raw\n")
    model = EXAMPLE / "digits.onnx"
    done = forked.run(f"dovetail net-run --dlc-path {model} --input-list a.txt", tmp_path)
    assert done.returncode == 3
    assert "digits.onnx" in done.stderr
    assert not (tmp_path / "output").exists()


def test_convert_and_quantize_write_dlc_files(tmp_path: Path) -> None:
    model = EXAMPLE / "digits.onnx"
    done = forked.run(f"dovetail convert -i {model} -o float.dlc", tmp_path)
    assert done.returncode == 0, done.stderr
    export(convert(model), tmp_path / "exported.dlc", "dlc")
    assert (tmp_path / "float.dlc").read_bytes() == (tmp_path / "exported.dlc").read_bytes()
    np.load(EXAMPLE / "heldout.npz")["images"][0].astype("<f4").tofile(tmp_path / "a.raw")
    (tmp_path / "a.txt").write_text("a.raw\n")
    done = forked.run("dovetail quantize -i float.dlc --input-list a.txt -o 8.dlc", tmp_path)
    assert done.returncode == 0, done.stderr
    (graph,) = convert(tmp_path / "8.dlc").graphs.values()
    (scores,) = graph.outputs
    assert scores.encoding is not None
    # the source is not replaced by itself
    before = (tmp_path / "8.dlc").read_bytes()
    done = forked.run("dovetail quantize -i 8.dlc --input-list a.txt -o ./8.dlc", tmp_path)
    assert done.returncode == 2
    assert "overwrite its source" in done.stderr
    assert (tmp_path / "8.dlc").read_bytes() == before
