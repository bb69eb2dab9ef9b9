"""The comparison of DLC files with the networks that they were made from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from benchmarks.vendor import dlc_summary
from benchmarks.vendor.dlc_summary import DlcResult
from benchmarks.vendor.dlcs import compare_dlc
from dlc_files import small_graph, write_dlc

import dovetail


def test_a_file_and_another_network(tmp_path: Path) -> None:
    graph = small_graph()
    path = write_dlc(graph, tmp_path / "net.dlc")
    dovetail.convert(path).save(tmp_path / "quantized.dvt")
    images = np.random.default_rng(0).normal(size=(3, 1, 4, 4, 2)).astype(np.float32)
    np.savez(tmp_path / "images.npz", allow_pickle=False, x=images)

    def compared(name: str) -> dict[str, object]:
        return compare_dlc(
            folder=str(tmp_path), path=str(tmp_path / name), kind="quantized", backend="htp"
        )

    found = compared("net.dlc")
    assert (found["nodes"], found["is_exact"], found["equal"]) == (3, True, 1.0)
    assert found["sqnr_db"] == 200
    other = graph.tensor("w")
    assert other.data is not None
    other.data = type(other.data)(255 - other.data.bytes)
    write_dlc(graph, tmp_path / "other.dlc")
    found = compared("other.dlc")
    assert found["is_exact"]
    assert isinstance(found["equal"], float)
    assert found["equal"] < 0.9


def test_targets_and_table() -> None:
    result = DlcResult(
        nodes=3, mb=0.5, read_ms=2, is_exact=True, htp_equal=1.0, cpu_equal=0.5, float_db=30
    )
    found = {t.label: t.is_met for t in dlc_summary.targets({"a": result})}
    assert found == {
        "DLCs exported and read exactly": True,
        "DLCs, 99 % of outputs as ours on htp": True,
        "a, float DLC, SQNR": False,
    }
    assert "50.00" in dlc_summary.dlc_table({"a": result})
