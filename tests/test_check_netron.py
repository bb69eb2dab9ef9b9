"""The check of Netron's pages: what it reads from a page, and what it notices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import check_netron
import pytest
from netron_check.facts import differences, shown_facts, title_of


def lines(*texts: str, content: str = "") -> list[dict[str, str]]:
    return [{"text": text} for text in texts] + ([{"text": "", "content": content}] * bool(content))


def page(**changes: Any) -> dict[str, Any]:
    """Return a page with one node, as it is read in the browser."""
    scaled = {"text": "quantization: linear", "content": "0.5 * (q + 128)"}
    weights = lines("name: w", "tensor: qint8[3]", content='[\n    1,\n    -2,\n    "..."\n]')
    pads = lines("tensor: float32[2]", content="[\n  NaN,\n  1e-7\n]")
    sidebar = {
        "Properties": [{"name": "type", "values": [lines("Mine")]}],
        "Attributes": [
            {"name": "beta", "values": [lines("36893488147419103000", "type: float32")]},
            {
                "name": "pads",
                "values": [pads],
            },
        ],
        "Inputs": [{"name": "inputs", "values": [[*lines("name: x"), scaled], weights]}],
    }
    node = {"title": "Mine", "sidebar": sidebar}
    base = {"nodes": [node], "edges": 1, "inputs": ["x"], "outputs": [], "model": {}, "graph": {}}
    return base | changes


def test_facts_of_a_page() -> None:
    assert shown_facts(page()) == {
        "nodes": 1,
        "edges": 1,
        "inputs": ["x"],
        "outputs": [],
        "node 0 title": "Mine",
        "node 0 type": "Mine",
        "node 0 attribute beta": 36893488147419103000,
        "node 0 attribute beta type": "float32",
        "node 0 attribute pads tensor": "float32[2]",
        "node 0 attribute pads data": ["NaN", 1e-7],
        "node 0 input 0 name": "x",
        "node 0 input 0 scale": 0.5,
        "node 0 input 0 offset": -128,
        "node 0 input 1 name": "w",
        "node 0 input 1 tensor": "qint8[3]",
        "node 0 input 1 data": [1, -2],
    }
    assert shown_facts({"error": "no file"}) == {"message": "no file"}


def test_differences() -> None:
    expected = shown_facts(page())
    assert list(differences(expected, shown_facts(page()))) == []
    found = list(differences(expected, shown_facts(page(edges=2))))
    assert found == ["edges: expected 1, shown 2"]
    found = list(differences(expected, shown_facts({"error": "no file"})))
    assert len(found) == len(expected) + 1
    assert "message: expected nothing, shown 'no file'" in found


def test_titles() -> None:
    assert title_of("DepthWiseConv2d") == "DepthWiseConv2d"
    assert title_of("my.Op") == "Op"
    assert title_of("ElementWiseSquaredDifference") == "ElementWis\u2026Difference"


def test_nothing_is_compared_without_the_viewer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = check_netron.main(["--python", str(tmp_path / "python"), "--chromium", "no-browser"])
    told = capsys.readouterr().out
    assert status == check_netron.SKIPPED == 77
    assert told.startswith("SKIPPED, nothing was compared: ")
    assert "make netron-test" in told
    assert "apt-get install chromium" in told
