"""Config files as plain data."""

from __future__ import annotations

from pathlib import Path

import pytest

from dovetail.files.config_text import (
    read_json,
    read_toml,
    read_yaml,
    read_yaml_data,
    yaml_scalar,
)


@pytest.mark.parametrize("number", ["1e-3", "1E-3", "1.e-3", ".1e-2", "+1e-3", "0.001", "1.0e-3"])
def test_numbers_have_every_form_of_yaml(tmp_path: Path, number: str) -> None:
    path = tmp_path / "numbers.yaml"
    path.write_text(f"a: {number}\nb: '1e-3'\nc: e3\nd: 1e\ne: 12\n", "utf-8-sig")
    assert read_yaml(path) == {"a": 0.001, "b": "1e-3", "c": "e3", "d": "1e", "e": 12}


@pytest.mark.parametrize(
    ("suffix", "text"), [("json", '{"a": 1}'), ("toml", "a = 1"), ("yaml", "a: 1")]
)
def test_a_byte_order_mark_is_no_content(tmp_path: Path, suffix: str, text: str) -> None:
    path = tmp_path / f"config.{suffix}"
    path.write_text(text, "utf-8-sig")
    readers = {"json": read_json, "toml": read_toml, "yaml": read_yaml}
    assert readers[suffix](path) == {"a": 1}


@pytest.mark.parametrize(
    "name", ["23", "023", "495.10", "1_000", "no", "2024-01-31", "0x1F", "'a'"]
)
def test_names_are_text_as_written(tmp_path: Path, name: str) -> None:
    path = tmp_path / "names.yaml"
    path.write_text(f"- name: {name}\n  size: 23\n- name:\n", "utf-8")
    found = read_yaml_data(path, texts=("name",))
    assert found == [{"name": name.strip("'"), "size": 23}, {"name": None}]


@pytest.mark.parametrize(
    "text",
    ["a/b:0", "null", '"\\', "größe", "入力", "😀", "\x00\x7f\x85\u2028\ufeff", "", "a\n# b"],
)
def test_written_texts_are_read_again(tmp_path: Path, text: str) -> None:
    path = tmp_path / "texts.yaml"
    path.write_text(f"name: {yaml_scalar(text)}\n", "utf-8")
    assert read_yaml(path) == {"name": text}
    assert path.read_text("utf-8").count("\n") == 1
