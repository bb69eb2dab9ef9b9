"""Configs of adapters, in YAML and JSON."""

from __future__ import annotations

import builtins
import json
import sys
from pathlib import Path

import pytest

from dovetail.adapters import read_adapter_config
from dovetail.errors import ConfigError

YAML = """
share_adapters_between_graphs: Yes
use_case:
- {name: one, graph: a, weights: one.safetensors, encodings: sub/one.encodings}
- {name: one, graph: b, weights: /abs/two.safetensors, weights_only: on}
- name: two
  weights: two.safetensors
  encodings: e
  enable_weights_updates: No
"""


def config(tmp_path: Path, text: str, name: str = "a.yaml"):
    (tmp_path / name).write_text(text, "utf-8")
    return read_adapter_config(tmp_path / name)


def test_yaml_has_its_booleans_and_relative_paths(tmp_path: Path) -> None:
    found = config(tmp_path, YAML)
    assert found.share_adapters_between_graphs is True
    assert found.names == ("one", "two")
    first, second = found.uses("one", "")
    assert (first.graph, first.weights) == ("a", str(tmp_path / "one.safetensors"))
    assert first.encodings == str(tmp_path / "sub" / "one.encodings")
    assert not first.weights_only
    assert (second.weights, second.weights_only) == ("/abs/two.safetensors", True)
    (third,) = found.uses("two", "")
    assert third.graph is None
    assert not third.enable_weights_updates


def test_json_needs_no_yaml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    text = json.dumps({"use_case": [{"name": "one", "weights": "w"}]})
    assert config(tmp_path, text, "a.json").names == ("one",)
    with pytest.raises(ConfigError, match="PyYAML, which is not installed") as caught:
        config(tmp_path, text)
    assert ".json" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("use_case: []", "at least one entry"),
        ("use_case: [{name: a, weights: w}, {name: a, weights: v}]", "occurs twice for one graph"),
        ("use_case: [{name: a, weights: w, weights_only: 7}]", "Expected `bool`"),
        ("use_case: [{name: a, weight: w}]", "did you mean 'weights'"),
        ("use_case: [{name: a, weights: w, enable_weights_updates: off}]", "requires encodings"),
        (
            "use_case: [{name: a, weights: w, weights_only: y, enable_weights_updates: off}]",
            "Expected `bool`",
        ),
        (
            "use_case: [{name: a, weights: w, encodings: e, weights_only: on, "
            "enable_weights_updates: off}]",
            "leave nothing to update",
        ),
        ("- a", "expected a mapping, got a list"),
        ("", "expected a mapping, got nothing"),
        ("a: [", "not valid YAML"),
        ("a: 1\na: 2", "duplicate keys"),
        ("a: {b: 1, b: 2}", "duplicate keys"),
        ("a: &x [1]\nb: *x", "aliases are not supported"),
        ("? [1, 2]\n: 3", "not valid YAML"),
        ("a: !!python/object/apply:os.system ['true']", "not valid YAML"),
        ("[" * 5000, "not valid YAML"),
    ],
)
def test_faults_are_reported(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config(tmp_path, text)
    told = [caught.value.message, caught.value.hint, *map(str, caught.value.problems)]
    assert message in " ".join(told)


def test_an_unknown_adapter_gets_a_hint(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="adapter 'tow' not found") as caught:
        config(tmp_path, YAML).uses("tow", "a.yaml")
    assert caught.value.hint == "did you mean 'two'?"


def test_nothing_is_evaluated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[object] = []
    monkeypatch.setattr(builtins, "eval", lambda *a: called.append(a))
    with pytest.raises(ConfigError):
        config(tmp_path, "a: !!python/object/apply:builtins.eval ['1']")
    assert not called
