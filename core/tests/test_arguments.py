"""Calls from Python with wrong types: each ends in a sentence with a hint, never in a traceback."""

from __future__ import annotations

import os
import pickle
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pytest
from reference_backend import OPS, ReferenceBackend, chain

import dovetail
from dovetail import runtime
from dovetail.arguments import check_arguments
from dovetail.container import Model, Producer
from dovetail.errors import ConfigError, PluginError
from dovetail.ir import DType, to_text
from dovetail.ops.frontend import FrontendOptions
from dovetail.runtime import Priority

if TYPE_CHECKING:
    from fractions import Fraction

OBJECT = object()
MODEL = Model.of(chain("Scale"), producer=Producer("test", "1"), registry=OPS)


@check_arguments
def call(
    path: str | os.PathLike[str] = "",
    count: int | None = None,
    names: Sequence[str] | None = (),
    size: float = 1,
    flag: bool = False,
    mode: Literal["a", "b"] = "a",
    run: Callable[[], None] | None = None,
    shape: tuple[int, ...] = (),
    several: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = "",
    table: Mapping[str, Any] | None = None,
    unknown: Fraction | None = None,
    anything: Any = None,
    *rest: int,
    named: Iterable[str] = (),
    **options: int,
) -> None:
    """A function with every kind of annotation that our functions have."""


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("path", ("a", Path("a"))),
        ("count", (None, 3, np.int64(3), Priority.LOW)),
        ("names", (None, [], ["a"], ("a", "b"))),
        ("size", (1, 1.5, np.float32(2), True)),
        ("flag", (True, np.bool_(False))),
        ("mode", ("b",)),
        ("run", (None, print)),
        ("shape", ((), [1, np.int8(2)])),
        ("several", ("a", Path("a"), ["a", Path("b")])),
        ("table", (None, {}, {1: 2}, os.environ)),
        ("unknown", (OBJECT,)),
        ("anything", (OBJECT,)),
        ("named", ({"a"}, iter("a"))),
        ("options", (OBJECT,)),
    ],
)
def test_values_of_the_annotated_types_pass(name: str, values: tuple[Any, ...]) -> None:
    for value in values:
        call(**{name: value})


@pytest.mark.parametrize(
    ("name", "value", "message", "hint"),
    [
        ("path", 5, "cannot be an object of type int", "pass a path"),
        ("path", b"a", "cannot be an object of type bytes", "pass a path"),
        ("path", "a\0b", "cannot contain a NUL character", "pass a path"),
        ("path", Path("a\0b"), "cannot contain a NUL character", "pass a path"),
        ("path", "\ud800", "cannot contain half a surrogate pair", "pass a path"),
        ("count", "5", "cannot be an object of type str", "pass an integer or None"),
        ("count", True, "cannot be an object of type bool", "pass an integer or None"),
        ("names", "abc", "cannot be an object of type str", "each a string"),
        ("names", [None], "cannot contain None", "each a string"),
        ("flag", None, "cannot be None", "pass True or False"),
        ("mode", 1, "cannot be an object of type int", "pass a string"),
        ("run", 1, "cannot be an object of type int", "pass a function or None"),
        ("shape", [1, "2"], "cannot contain an object of type str", "each an integer"),
        ("several", ["a", "b\0"], "cannot contain a NUL character", "a path or a sequence"),
        ("table", [], "cannot be an object of type list", "pass a mapping or None"),
    ],
)
def test_other_values_are_refused(name: str, value: object, message: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        call(**{name: value})
    assert (caught.value.code, caught.value.exit_code) == ("USAGE", 2)
    assert (caught.value.message, caught.value.where) == (f"argument '{name}' {message}", "call")
    assert hint in caught.value.hint


def test_names_for_the_type_checker_mean_any_type(monkeypatch: pytest.MonkeyPatch) -> None:
    def with_copied_names(*args: Any, localns: dict[str, Any]) -> dict[str, Any]:
        return get_type_hints(*args, localns=dict(localns))  # as Python 3.14 does

    get_type_hints = typing.get_type_hints
    monkeypatch.setattr(typing, "get_type_hints", with_copied_names)

    @check_arguments
    def taking(one: Fraction, other: Sequence[Fraction] | None = None) -> Fraction:
        return one

    assert taking(one=OBJECT) is OBJECT  # type: ignore[arg-type, comparison-overlap]
    with pytest.raises(ConfigError, match="argument 'other' cannot be an object") as caught:
        taking(OBJECT, 5)  # type: ignore[arg-type]
    assert caught.value.hint == "pass a sequence or None"


def test_a_path_that_the_file_system_cannot_express(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsencode", lambda text: text.encode("latin-1"))
    with pytest.raises(ConfigError) as caught:
        call("a\u03a9")
    text = "argument 'path' cannot contain '\u03a9', which latin-1 file names cannot have"
    assert caught.value.message == text


def test_all_wrong_arguments_are_listed() -> None:
    with pytest.raises(ConfigError) as caught:
        call(5, "6", flag="no")  # type: ignore[arg-type]
    assert [p.message.split("'")[1] for p in caught.value.problems] == ["path", "count", "flag"]
    defaults: tuple[Any, ...] = ("", None, (), 1, False, "a", None, (), "", None, None, None)
    call(*defaults, 1, 2)
    with pytest.raises(ConfigError, match="argument 'rest' cannot contain None"):
        call(*defaults, 1, None)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (dovetail.Session, {"model": MODEL, "config": 5}),
        (dovetail.Session, {"model": MODEL, "backend": None}),
        (dovetail.Session, {"model": MODEL, "specialize": 5}),
        (dovetail.Session, {"model": MODEL, "ops": 5}),
        (dovetail.Session, {"model": MODEL, "map_weights": np.zeros(2)}),
        (dovetail.Session, {"model": "a\0b.dvt"}),
        (dovetail.Session, {"model": MODEL, "config": "a\0b.toml"}),
        (dovetail.load, {"path": "a\0b"}),
        (dovetail.load_model, {"path": "\ud800"}),
        (dovetail.convert, {"path": "a\0b"}),
        (dovetail.convert, {"path": "a.onnx", "options": {}}),
        (dovetail.convert, {"path": "a.onnx", "ops": []}),
        (dovetail.convert, {"path": "a.onnx", "name": 5}),
        (dovetail.export, {"model": None, "path": "a.onnx"}),
        (dovetail.export, {"model": MODEL, "path": 5}),
        (dovetail.export, {"model": MODEL, "path": "a.onnx", "format": []}),
        (dovetail.export, {"model": MODEL, "path": "a.onnx", "graph": []}),
        (dovetail.export, {"model": MODEL, "path": "a.onnx", "options": {}}),
        (dovetail.quantize, {"model": "a\0b"}),
        (dovetail.quantize, {"model": MODEL, "ops": 5}),
        (dovetail.quantize, {"model": MODEL, "act_bitwidth": "\ud800"}),
        (dovetail.Model, {"graphs": [], "producer": None, "op_packages": {}}),
        (Model.of, {"producer": MODEL.producer, "registry": 5}),
        (Model.load, {"path": None}),
        (MODEL.save, {"path": 5}),
        (runtime.Backend.create, {"name": None}),
        (runtime.Backend.create, {"name": ReferenceBackend, "config": 5}),
    ],
)
def test_odd_calls(function: Any, arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        function(**arguments)
    assert caught.value.exit_code == 2
    assert caught.value.hint or all(each.hint for each in caught.value.problems)


def test_odd_calls_of_handles() -> None:
    with runtime.Backend.create(ReferenceBackend, ops=OPS) as backend:
        context = backend.create_context()
        (graph,) = context.compose(MODEL)
        graph.finalize()
        x = {"x": np.zeros((2, 3), np.float32)}
        other = context.create_graph("other")
        calls: list[Callable[[], object]] = [
            lambda: graph.execute(x, profile=5),  # type: ignore[arg-type]
            lambda: graph.execute(x, None, None, 5),  # type: ignore[arg-type]
            lambda: graph.execute(x, watch=5),  # type: ignore[arg-type]
            lambda: graph.execute([x]),  # type: ignore[arg-type]
            lambda: graph.execute_async(x, x, profile=context),  # type: ignore[arg-type]
            lambda: other.finalize(5),  # type: ignore[arg-type]
            lambda: other.create_tensor("t", 5, (1,)),  # type: ignore[arg-type]
            lambda: other.create_tensor("t", DType.INT_8, [None]),  # type: ignore[arg-type]
            lambda: other.create_tensor(["t"], DType.INT_8, (1,)),  # type: ignore[arg-type]
            lambda: other.create_tensor("t", DType.INT_8, (1,), encoding=5),  # type: ignore[arg-type]
            lambda: other.add_node("n", "p", "o", [5], []),  # type: ignore[list-item]
            lambda: other.add_node("n", "p", "o", [], [], [1]),  # type: ignore[arg-type]
            lambda: context.compose(5),  # type: ignore[arg-type]
            lambda: context.create_graph([]),  # type: ignore[arg-type]
            lambda: backend.create_context(5),  # type: ignore[arg-type]
            lambda: backend.create_context(config=5),  # type: ignore[arg-type]
            lambda: backend.create_profile(None),  # type: ignore[arg-type]
            lambda: backend.create_signal(runtime.SignalKind.TIMEOUT, "5"),  # type: ignore[arg-type]
            lambda: backend.register_op_package(5),  # type: ignore[arg-type]
        ]
        for odd in calls:
            with pytest.raises(ConfigError) as caught:
                odd()
            assert caught.value.exit_code == 2
            assert caught.value.hint.startswith("pass ")
        with pytest.raises(PluginError, match="the class is not a backend: missing 'name'"):
            runtime.Backend.create(int)  # type: ignore[arg-type]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_models_are_pickled_with_any_protocol(protocol: int) -> None:
    found = pickle.loads(pickle.dumps(MODEL, protocol))  # noqa: S301 - our own bytes
    assert [to_text(g) for g in found.graphs.values()] == [
        to_text(g) for g in MODEL.graphs.values()
    ]


def test_options_of_a_conversion_are_a_struct() -> None:
    with pytest.raises(ConfigError) as caught:
        dovetail.convert("a.onnx", 5)  # type: ignore[arg-type]
    assert caught.value.hint == f"pass a {FrontendOptions.__name__} or None"
