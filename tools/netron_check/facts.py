"""Facts that a page of Netron shows, as names and values that can be compared."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

# By name, such as `node 3 input 0 tensor`.
Facts = dict[str, Any]

_TITLE_LENGTH, _TITLE_PART = 21, 10
# Netron shows the first numbers of a tensor.
DATA_LENGTH = 10_000
_MORE = "..."
_NUMBER = re.compile(r"true|false|NaN|-?(?:Infinity|\d+(?:\.\d+)?(?:e[+-]?\d+)?)")
_TEXT = re.compile(r'^ *"(.*)",?$', re.MULTILINE)
_QUANTIZED = re.compile(r"(?:(\S+) \* )?\(?q(?: ([+-]) (\d+))?\)?")


def title_of(op_type: str) -> str:
    """Return an op type as the graph shows it: without what precedes a point, and shortened."""
    name = op_type.rpartition(".")[2]
    is_short = len(name) <= _TITLE_LENGTH
    return name if is_short else f"{name[:_TITLE_PART]}\u2026{name[-_TITLE_PART:]}"


def shown_facts(page: Mapping[str, Any]) -> Facts:
    """Return the facts of a page, as `read_page.js` read it; those of a message are the message."""
    if "error" in page:
        return {"message": page["error"]}
    facts: Facts = {
        "nodes": len(page["nodes"]),
        "edges": page["edges"],
        "inputs": page["inputs"],
        "outputs": page["outputs"],
    }
    facts |= _named("model", page["model"].get("Properties", ()))
    facts |= _named("graph", page["graph"].get("Properties", ()))
    for section in ("Inputs", "Outputs"):
        facts |= _values(section[:-1].lower(), page["graph"].get(section, ()))
    for i, node in enumerate(page["nodes"]):
        where, sidebar = f"node {i}", node["sidebar"]
        facts[f"{where} title"] = node["title"]
        facts |= _named(where, sidebar["Properties"])
        for item in sidebar.get("Attributes", ()):
            facts |= _attribute(f"{where} attribute {item['name']}", item["values"])
        for section in ("Inputs", "Outputs"):
            facts |= _values(f"{where} {section[:-1].lower()}", sidebar.get(section, ()))
        if "Errors" in sidebar:
            facts[f"{where} errors"] = sidebar["Errors"]
    return facts


def _named(where: str, items: Sequence[Mapping[str, Any]]) -> Facts:
    return {f"{where} {item['name']}": _text(item["values"]) for item in items}


def _text(values: Sequence[Sequence[Mapping[str, str]]]) -> str:
    return "".join(line["text"] for value in values for line in value)


def _attribute(where: str, values: Sequence[Sequence[Mapping[str, str]]]) -> Facts:
    (lines,) = values
    if lines[0]["text"].startswith("tensor: "):
        return _value(where, lines)
    facts: Facts = {where: plain(lines[0]["text"])}
    for line in lines[1:]:
        name, _, text = line["text"].partition(": ")
        facts[f"{where} {name}"] = text
    return facts


def _values(where: str, items: Sequence[Mapping[str, Any]]) -> Facts:
    """Return the facts of inputs or outputs; what Netron calls each is not compared."""
    facts: Facts = {}
    for i, lines in enumerate(lines for item in items for lines in item["values"]):
        facts |= _value(f"{where} {i}", lines)
    return facts


def _value(where: str, lines: Sequence[Mapping[str, str]]) -> Facts:
    facts: Facts = {}
    for line in lines:
        name, _, text = line["text"].partition(": ")
        if name == "quantization":
            facts[f"{where} scale"], facts[f"{where} offset"] = _scale_and_offset(line["content"])
        elif "content" in line:
            facts[f"{where} data"] = _data(line["content"])
        elif name != "denotation":
            facts[f"{where} {name}"] = text.strip()
    return facts


def _scale_and_offset(text: str) -> tuple[Any, Any]:
    found = _QUANTIZED.fullmatch(text)
    if not found:
        return text, None
    scale, sign, offset = found.groups(default="")
    return float(scale or 1), int(offset or 0) * (-1 if sign == "+" else 1)


def _data(text: str) -> Any:
    """Return the numbers or texts of a tensor, or the message that is shown instead."""
    if not text.startswith(("[", '"')) and not _NUMBER.fullmatch(text):
        return text
    texts = [each for each in _TEXT.findall(text) if each != _MORE]
    return list(map(plain, texts or _NUMBER.findall(text)))


def plain(value: Any) -> Any:
    """Return a value in a form that can be compared: numbers as JavaScript prints them, or text."""
    if isinstance(value, str):
        return _number(value) if _NUMBER.fullmatch(value) else value
    if isinstance(value, float) and math.isfinite(value) and value.is_integer():
        # Up to here, JavaScript prints the digits that distinguish a number, and zeros.
        return int(Decimal(repr(value))) if abs(value) < 1e21 else value
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def _number(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    return int(text) if re.fullmatch(r"-?\d+", text) else plain(float(text))


def differences(expected: Facts, shown: Facts) -> Iterator[str]:
    """Yield what the page shows otherwise, does not show, or shows in addition."""
    for name in expected.keys() | shown.keys():
        a, b = expected.get(name), shown.get(name)
        if a != b:
            yield f"{name}: expected {_short(a)}, shown {_short(b)}"


def _short(value: Any) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
