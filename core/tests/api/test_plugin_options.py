"""Options of a frontend's own type: from base options and from names and values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pytest

from dovetail.api.plugin_options import options_for, options_from, options_text
from dovetail.errors import ConfigError
from dovetail.ir import Graph
from dovetail.ops import OpRegistry
from dovetail.ops.frontend import DryRun, FrontendOptions


class ToyOptions(FrontendOptions, frozen=True, kw_only=True, eq=False):
    """Options of a toy format."""

    signature: str = "serving"
    depth: int = 1
    mode: Literal["on", "off"] = "on"
    symbols: Mapping[str, int] = {}


class Toy:
    """A frontend of which only the options count."""

    name: ClassVar[str] = "toy"
    suffixes: ClassVar[tuple[str, ...]] = (".toy",)
    options_type: ClassVar[type[FrontendOptions]] = ToyOptions

    def recognises(self, path: Path) -> bool:
        return False

    def read(self, path: Path, options: Any, ops: OpRegistry) -> list[Graph]:
        return []

    def dry_run(self, path: Path, options: Any, ops: OpRegistry) -> DryRun:
        return DryRun(operators=(), problems=(), unused_inputs=())


class Other(Toy):
    options_type = FrontendOptions


def test_base_options_suit_every_frontend() -> None:
    values = {"s": np.zeros(3)}
    base = FrontendOptions(input_dims={"x": (1, 2)}, batch=3, out_names=("y",), input_values=values)
    found = options_for(Toy(), base)
    assert isinstance(found, ToyOptions)
    assert (found.input_dims, found.batch, found.out_names) == ({"x": (1, 2)}, 3, ("y",))
    assert found.input_values is values
    assert isinstance(options_for(Toy()), ToyOptions)
    own = ToyOptions(depth=2)
    assert options_for(Toy(), own) is own


def test_numbers_of_numpy_become_those_of_python() -> None:
    dims: Any = {"x": np.array([1, 2])}
    base = FrontendOptions(input_dims=dims, batch=np.int64(3), input_values={"s": [1, 2]})  # type: ignore[arg-type, dict-item]
    found = options_for(Toy(), base)
    assert (found.input_dims, found.batch) == ({"x": (1, 2)}, 3)
    assert type(found.batch) is int
    assert found.input_values == {"s": [1, 2]}  # frontends take lists, too


@pytest.mark.parametrize("kind", [FrontendOptions, ToyOptions])
def test_values_of_wrong_types_are_all_listed(kind: Any) -> None:
    wrong = kind(input_dims={"x": (1.5, 2), "y": "1,2"}, batch=True, out_names="scores")
    with pytest.raises(ConfigError) as caught:
        options_for(Toy(), wrong)
    assert caught.value.code == "USAGE"
    assert [p.where for p in caught.value.problems] == [
        "input_dims.x[0]",
        "input_dims.y",
        "batch",
        "out_names",
    ]


def test_options_of_another_frontend_are_rejected() -> None:
    with pytest.raises(ConfigError) as caught:
        options_for(Other(), ToyOptions())
    assert caught.value.code == "USAGE"
    assert "the frontend 'toy' has no options of type ToyOptions" in str(caught.value)


def test_values_get_the_types_of_the_options() -> None:
    found = options_from(Toy(), {"depth": "4", "mode": "off", "symbols": {"n": 2}, "batch": 1})
    assert isinstance(found, ToyOptions)
    assert (found.depth, found.mode, found.symbols, found.batch) == (4, "off", {"n": 2}, 1)
    assert options_text(found) == {
        "depth": "4",
        "mode": '"off"',
        "symbols": '{"n":2}',
        "batch": "1",
    }
    assert options_text(ToyOptions()) == {}


def test_every_option_that_does_not_fit_is_listed() -> None:
    given = {"depht": "4", "mode": "of", "depth": "deep"}
    with pytest.raises(ConfigError) as caught:
        options_from(Toy(), given, {"mode": "--mode"})
    texts = [str(problem) for problem in caught.value.problems]
    assert len(texts) == 3
    assert "the frontend 'toy' has no option 'depht'" in texts[0]
    assert "did you mean 'depth'?" in texts[0]
    assert "--mode" in texts[1]
    assert "unsupported value" in texts[2]
