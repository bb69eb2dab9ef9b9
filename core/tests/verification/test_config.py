"""Config files of verifiers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dovetail.errors import ConfigError
from dovetail.plugins.verifier_config import VerifierConfig, read_verifier_config
from dovetail.plugins.verifiers import verifier

SOURCE = """
class Largest:
    def __init__(self, *, limit: float = 0.5, k: int = 1): ...
    def update(self, golden, target): ...
    def finish(self): ...
class Boxes(Largest):
    def update(self, golden, target, golden_classes, target_classes): ...
"""


@pytest.fixture(autouse=True)
def plugin(site: Any) -> None:
    site.module("config_plugin", SOURCE)
    points = {"Largest": "config_plugin:Largest", "Boxes": "config_plugin:Boxes"}
    site.dist("config-dist", {"dovetail.verifiers": points})


def read(tmp_path: Path, data: object) -> VerifierConfig:
    path = tmp_path / "verifiers.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return read_verifier_config(path)


def shown(found: Any) -> list[tuple[str, tuple[str, ...]]]:
    return [(str(each.verifier), each.tensors) for each in found]


def test_the_form_of_the_reference(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        {
            "Boxes": {"parameters": {"limit": 1.0}, "tensors": [["boxes", "classes"]]},
            "largest": {"parameters": {"k": 5, "limit": 2}, "tensors": [["a"], ["boxes"]]},
        },
    )
    default = [verifier("Largest"), verifier("Largest", {"k": 2})]
    names = ["a", "b", "boxes", "classes", "c"]
    assert shown(config.for_tensors(names, default)) == [
        ("Boxes,limit=1.0", ("boxes", "classes")),
        ("Largest,k=5,limit=2.0", ("a",)),
        ("Largest,k=5,limit=2.0", ("boxes",)),
        ("Largest", ("b",)),
        ("Largest,k=2", ("b",)),
        ("Largest", ("c",)),
        ("Largest,k=2", ("c",)),
    ]


def test_entries_without_tensors_and_several_entries(tmp_path: Path) -> None:
    config = read(tmp_path, {"Largest": [{"parameters": {"k": 3}}, {"tensors": [["a"]]}, {}]})
    assert shown(config.for_tensors(["a", "b"])) == [
        ("Largest", ("a",)),
        ("Largest,k=3", ("b",)),
        ("Largest", ("b",)),
    ]
    assert shown(read(tmp_path, {}).for_tensors(["a"])) == []


def test_unknown_tensors_are_all_named(tmp_path: Path) -> None:
    config = read(tmp_path, {"Largest": {"tensors": [["conv1"], ["conv2"], ["zzz"]]}})
    with pytest.raises(ConfigError, match="unknown tensors") as caught:
        config.for_tensors(["conv1", "conv22"])
    assert caught.value.where.endswith("verifiers.json")
    assert [str(p) for p in caught.value.problems] == [
        "'conv2' (did you mean 'conv22'?)",
        "'zzz' (valid names: conv1, conv22)",
    ]


def test_all_faults_of_a_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="invalid config of verifiers") as caught:
        read(
            tmp_path,
            {
                "Largets": {"parameters": {}},
                "Largest": [
                    {"parameters": {"limt": 1, "k": "x"}, "tensor": []},
                    {"parameters": {"limt": 1, "k": "x"}},
                    {"parameters": {"k": 1.5}},
                    {"tensors": [["a", "b"], ["a"], ["a"], []]},
                    3,
                ],
                "Boxes": [{"tensors": [["boxes"]]}, {}],
            },
        )
    found = [str(p) for p in caught.value.problems]
    assert found == [
        "$.Largets: unknown verifier 'Largets' (did you mean 'Largest'?)",
        "$.Largest[0].tensor: unknown key (did you mean 'tensors'?)",
        "$.Largest[1].parameters.limt: unknown key (did you mean 'limit'?)",
        "$.Largest[1].parameters.k: Expected `int`, got `str`",
        "$.Largest[2].parameters.k: Expected `int`, got `float`",
        "$.Largest[3].tensors[0]: the verifier reads one tensor at a time, got 2",
        "$.Largest[3].tensors[2]: duplicate tensors",
        "$.Largest[3].tensors[3]: the verifier reads one tensor at a time, got 0",
        "$.Largest[4]: Expected `object`, got `int`",
        "$.Boxes[0].tensors[0]: the verifier reads 2 tensors together, got 1",
        "$.Boxes[1]: the verifier reads several tensors together "
        "(list 2 tensors in each item of 'tensors')",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"Largest": 1}',
        '{"Largest": {}, "Largest": {}}',
        "[" * 10_000,
        '{"\\ud800": {}}',
        '{"Largest": {"tensors": [[null]]}}',
        '{"Largest": {"parameters": {"limit": NaN}}}',
    ],
)
def test_damaged_files_are_config_errors(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    assert "verifiers.json" in caught.value.where


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read") as caught:
        read_verifier_config(tmp_path / "none.json")
    assert caught.value.code == "CONFIG_UNREADABLE"
