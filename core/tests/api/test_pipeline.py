"""Changes of the passes as text: their grammar, typed options, and every fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from dovetail.api import pipeline
from dovetail.api.pipeline import pass_options, pipeline_passes
from dovetail.errors import ConfigError
from dovetail.ir import Graph


@dataclass(frozen=True)
class Step:
    name: str
    phase: str = "late"
    after: str | None = None
    on_request: bool = False
    limit: int = 1
    scale: float = 0.5
    mode: Literal["fast", "exact"] = "fast"
    axes: tuple[int, ...] = ()
    is_deep: bool = False
    cache: dict[str, int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        if self.limit < 0:
            raise ValueError("'limit' must not be negative")

    def run(self, graph: Graph) -> bool:
        return False


class Plain:
    """A pass without options."""

    name, phase, after = "plain", "late", None

    def run(self, graph: Graph) -> bool:
        return False


class Line:
    """A pipeline to whose end others join."""

    name = "convert.default"

    def __init__(self, *passes: Any) -> None:
        self.passes = passes

    def run(self, graph: Graph) -> bool:
        return False

    def expanded(self, extra: list[Any], leave_out: Callable[..., None]) -> Line:
        return Line(*self.passes, *extra)


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let three passes be in the pipeline, one twice, and two others be installed."""
    line = Line(Step("first"), Step("second"), Step("first"))
    others = {"third": Step("third"), "asked": Step("asked", on_request=True), "plain": Plain()}
    monkeypatch.setattr(pipeline, "load_plugin", lambda group, name: line)
    monkeypatch.setattr(pipeline, "load_all", lambda group: {"convert.default": line, **others})


def names(text: str) -> list[str]:
    return [step.name for step in pipeline_passes(text)]


def faults(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        pipeline_passes(text)
    assert (caught.value.code, caught.value.exit_code) == ("USAGE", 2)
    return [str(problem) for problem in caught.value.problems]


def test_passes_are_removed_and_added() -> None:
    assert names("") == ["first", "second", "first", "third", "plain"]
    assert names("-first, -third") == ["second", "plain"]
    assert names("+asked") == ["first", "second", "first", "third", "asked", "plain"]
    assert names("+second") == names("second{}") == names("")


def test_only_chosen_passes_keep_their_order() -> None:
    found = pipeline_passes("+asked,second{limit=4}", only_chosen=True)
    assert [(step.name, step.limit) for step in found] == [("second", 4), ("asked", 1)]
    assert pipeline_passes("", only_chosen=True) == ()
    with pytest.raises(ConfigError) as caught:
        pipeline_passes("+asked,-first,-third", only_chosen=True)
    assert [problem.where for problem in caught.value.problems] == ["-first", "-third"]
    assert "only added ones run" in caught.value.problems[0].message


def test_options_have_the_types_of_the_fields() -> None:
    text = "+asked{limit=3,scale=2,mode=exact,axes=[1,-2],is_deep=true},first{limit=7}"
    by_name = {step.name: step for step in pipeline_passes(text)}
    assert pass_options(by_name["asked"]) == {
        "limit": 3,
        "scale": 2.0,
        "mode": "exact",
        "axes": (1, -2),
        "is_deep": True,
    }
    # everywhere that the pass runs, and nowhere else
    assert [getattr(step, "limit", 1) for step in pipeline_passes(text)] == [7, 1, 7, 1, 3, 1]
    assert pass_options(by_name["plain"]) == {}


def test_every_fault_is_listed() -> None:
    text = "-frist,+asked{limt=3,limit=many,mode=slow,axes=[1;2]},plain{x=1},second{limit=-1}"
    found = faults(text)
    assert [
        part in problem
        for part, problem in zip(
            (
                "-frist: pass 'frist' not found (did you mean 'first'?)",
                "option 'limt' of pass 'asked' not found",
                "option 'limit': unsupported value 'many'",
                "option 'mode': unsupported value 'slow'; expected fast or exact",
                "option 'axes': unsupported value '[1;2]'",
                "the pass has no options",
                "'limit' must not be negative",
            ),
            found,
            strict=True,
        )
    ] == [True] * 7, found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("-first{limit=1}", "a pass that is removed has no options"),
        ("-first,+first", "pass 'first' is given twice"),
        ("first{limit}", "option 'limit' has no value"),
        ("first{limit=1,limit=2}", "an option is given twice"),
        ("first{limit=1", "cannot read 'first{limit=1'"),
        ("-", "cannot read '-'"),
        ("first second", "cannot read 'first second'"),
        ("first}", "cannot read 'first}'"),
        ("+convert.default", "pass 'convert.default' not found"),
    ],
)
def test_text_that_is_not_well_formed(text: str, message: str) -> None:
    (found,) = faults(text)
    assert message in found
