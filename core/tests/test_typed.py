"""Typed decoding of foreign data: all unknown keys and all wrong values at once."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
import pytest

from dovetail.errors import ConfigError, ContainerError
from dovetail.typed import convert, without_faults


class Leaf(msgspec.Struct):
    width: int = 0
    height: int = 0


class Circle(msgspec.Struct, tag="circle"):
    radius: float = 1.0


class Box(msgspec.Struct, tag="box", tag_field="type"):
    leaf: Leaf = msgspec.field(default_factory=Leaf)


class Round(msgspec.Struct, tag="round", tag_field="type"):
    radius: float = 1.0


class Renamed(msgspec.Struct, rename="kebab"):
    axis_count: int = 0


class Level(enum.Enum):
    LOW = "low"


class Node(msgspec.Struct):
    child: Node | None = None
    value: int = 0


class Root(msgspec.Struct):
    name: str
    leaf: Leaf | None = None
    leaves: list[Leaf] = []
    grid: list[list[Leaf]] = []
    by_name: dict[str, Leaf] = {}
    mapping: Mapping[str, Leaf] = {}
    sequence: Sequence[Leaf] = ()
    tail: tuple[Leaf, ...] = ()
    pair: tuple[int, Leaf] = (0, Leaf())
    mixed: list[int | Leaf] = []
    either: Box | Round | None = None
    shapes: list[Box | Round] = []
    circle: Circle | None = None
    renamed: Renamed | None = None
    noted: Annotated[Leaf | None, "noted"] = None
    bounded: Annotated[int, msgspec.Meta(ge=0)] = 0
    level: Level = Level.LOW
    node: Node | None = None
    free: dict[str, object] = {}


GOOD = {
    "name": "n",
    "leaf": {"width": 1},
    "leaves": [{"width": 1}, {"height": 2}],
    "grid": [[{}], [{"width": 3}]],
    "by_name": {"anything": {"width": 1}},
    "mapping": {"x": {"height": 1}},
    "sequence": [{"width": 4}],
    "tail": [{"width": 5}],
    "pair": [1, {"width": 2}],
    "mixed": [1, {"width": 2}],
    "either": {"type": "box", "leaf": {"width": 6}},
    "shapes": [{"type": "round", "radius": 2}, {"type": "box"}],
    "circle": {"type": "circle", "radius": 2},
    "renamed": {"axis-count": 2},
    "noted": {"width": 1},
    "level": "low",
    "node": {"child": {"child": {"value": 1}}},
    "free": {"anything": {"goes": [1]}},
}


def test_good_data_become_a_struct() -> None:
    root = convert(GOOD, Root, where="f")
    assert root.leaves[1] == Leaf(0, 2)
    assert root.pair == (1, Leaf(2))
    assert root.either == Box(Leaf(6))
    assert [type(s) for s in root.shapes] == [Round, Box]
    assert root.renamed == Renamed(2)
    assert root.node is not None
    assert root.free == {"anything": {"goes": [1]}}


@pytest.mark.parametrize(
    ("field", "value", "path", "hint"),
    [
        ("nane", "n", "$.nane", "did you mean 'name'?"),
        ("leaf", {"widht": 1}, "$.leaf.widht", "did you mean 'width'?"),
        ("leaf", {"qqq": 1}, "$.leaf.qqq", "valid names: height, width"),
        ("leaves", [{}, {"hight": 1}], "$.leaves[1].hight", "did you mean 'height'?"),
        ("grid", [[], [{"w": 1}]], "$.grid[1][0].w", None),
        ("by_name", {"k": {"wide": 1}}, "$.by_name.k.wide", None),
        ("mapping", {"k": {"wide": 1}}, "$.mapping.k.wide", None),
        ("sequence", [{"wide": 1}], "$.sequence[0].wide", None),
        ("tail", [{}, {"wide": 1}], "$.tail[1].wide", None),
        ("pair", [1, {"wide": 1}], "$.pair[1].wide", None),
        ("mixed", [1, {"wide": 1}], "$.mixed[1].wide", None),
        ("either", {"type": "box", "leaves": {}}, "$.either.leaves", "did you mean 'leaf'?"),
        ("either", {"type": "box", "leaf": {"wide": 1}}, "$.either.leaf.wide", None),
        ("either", {"type": "round", "leaf": {}}, "$.either.leaf", "valid names: radius"),
        ("shapes", [{"type": "round", "leaf": 1}], "$.shapes[0].leaf", "valid names: radius"),
        ("circle", {"type": "circle", "r": 1}, "$.circle.r", None),
        ("renamed", {"axis_count": 2}, "$.renamed.axis_count", "did you mean 'axis-count'?"),
        ("noted", {"wide": 1}, "$.noted.wide", None),
        ("node", {"child": {"child": {"valeu": 1}}}, "$.node.child.child.valeu", None),
    ],
)
def test_an_unknown_key_is_found_wherever_it_is(
    field: str, value: object, path: str, hint: str | None
) -> None:
    with pytest.raises(ConfigError) as caught:
        convert(GOOD | {field: value}, Root, where="settings.toml")
    error = caught.value
    assert (error.code, error.where) == ("CONFIG_UNKNOWN_KEY", "settings.toml")
    assert [(p.where, p.message) for p in error.problems] == [(path, "unknown key")]
    assert hint is None or error.problems[0].hint == hint


def test_all_unknown_keys_come_at_once_and_then_wrong_values() -> None:
    data = {
        "name": 3,
        "x": 1,
        "leaf": {"y": 1},
        "leaves": [{"z": 1}, 5],
        "either": {"type": "box", "leaf": {"w": 1}},
    }
    with pytest.raises(ConfigError) as caught:
        convert(data, Root, where="f")
    wanted = ["$.x", "$.leaf.y", "$.leaves[0].z", "$.either.leaf.w", "$.name", "$.leaves[1]"]
    assert [p.where for p in caught.value.problems] == wanted
    assert (caught.value.message, caught.value.code) == (
        "unknown keys and wrong values",
        "CONFIG_INVALID",
    )


def test_all_wrong_values_come_at_once() -> None:
    data = {
        "leaf": {"width": "1", "height": None},
        "by_name": {"k": {"width": []}},
        "pair": ["1", {"width": 1.5}],
        "either": {"type": "cone"},
        "node": {"child": {"child": {"value": {}}}},
        "bounded": -1,
    }
    with pytest.raises(ConfigError) as caught:
        convert(data, Root, where="f")
    assert [(p.where, p.message) for p in caught.value.problems] == [
        ("$.leaf.width", "Expected `int`, got `str`"),
        ("$.leaf.height", "Expected `int`, got `null`"),
        ("$.by_name.k.width", "Expected `int`, got `array`"),
        ("$.pair[0]", "Expected `int`, got `str`"),
        ("$.pair[1].width", "Expected `int`, got `float`"),
        ("$.either.type", "Invalid value 'cone'"),
        ("$.node.child.child.value", "Expected `int`, got `object`"),
        ("$.bounded", "Expected `int` >= 0"),
        ("$", "Object missing required field `name`"),
    ]


def test_half_a_surrogate_pair_is_named() -> None:
    with pytest.raises(ConfigError) as caught:
        convert({"name": "n", "level": "\ud800"}, Root, where="f")
    assert (caught.value.where, caught.value.message) == (
        "f: $.level",
        "text contains half a surrogate pair",
    )


@pytest.mark.parametrize(
    ("change", "place", "message"),
    [
        ({"name": 3}, "f: $.name", "Expected `str`, got `int`"),
        ({"leaves": [{}, {"width": "1"}]}, "f: $.leaves[1].width", "Expected `int`, got `str`"),
        ({"leaf": 3}, "f: $.leaf", "Expected `object | null`, got `int`"),
        ({"leaf": [1]}, "f: $.leaf", "Expected `object | null`, got `array`"),
        ({"pair": [1]}, "f: $.pair", "Expected `array` of length 2, got 1"),
        ({"bounded": -1}, "f: $.bounded", "Expected `int` >= 0"),
        ({"level": "hi - at `$.x`"}, "f: $.level", "Invalid enum value 'hi - at `$.x`'"),
        ({"either": {"type": "cone"}}, "f: $.either.type", "Invalid value 'cone'"),
        ({"either": {}}, "f: $.either", "Object missing required field `type`"),
    ],
)
def test_a_wrong_type_with_its_path(change: dict[str, object], place: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        convert({"name": "n"} | change, Root, where="f")
    error = caught.value
    assert (error.code, error.where, error.message) == ("CONFIG_INVALID", place, message)
    assert isinstance(error.__cause__, msgspec.ValidationError)


def test_wrong_at_the_top() -> None:
    with pytest.raises(ConfigError, match=r"^f: Object missing required field `name`$") as caught:
        convert({}, Root, where="f")
    assert caught.value.where == "f"
    with pytest.raises(ConfigError, match="Expected `object`, got `array`"):
        convert([1], Root, where="f")


@pytest.mark.parametrize("data", [{"name": "n", "x": 1}, {"name": 1}])
def test_the_error_is_of_the_callers_class(data: dict[str, object]) -> None:
    with pytest.raises(ContainerError) as caught:
        convert(data, Root, where="f", error=ContainerError)
    assert caught.value.code == "CONTAINER_DAMAGED"


def test_what_is_left_without_faults_can_be_converted() -> None:
    data = {
        "name": "n",
        "nmae": 1,
        "bounded": -1,
        "leaves": [{"width": "1", "height": 2}, {"widht": 3}],
        "grid": [[3]],
        "by_name": {"a": {"width": []}, "b": 3},
        "either": {"type": "round", "radius": 2, "leaf": 3},
        "pair": [1, {"width": 2}],
        "level": "lwo",
    }
    left = without_faults(data, Root)
    assert left == {
        "name": "n",
        "leaves": [{"height": 2}, {}],
        "by_name": {"a": {}},
        "either": {"type": "round", "radius": 2},
        "pair": [1, {"width": 2}],
    }
    assert convert(left, Root, where="file").either == Round(2)
