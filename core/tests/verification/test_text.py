"""The text form of verifiers, and verifiers by name."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.errors import ConfigError
from dovetail.plugins.verifiers import parse_verifiers, verifier
from dovetail.verification import parse_verifier
from dovetail.verification.text import verifier_text

SOURCE = """
class Largest:
    def __init__(self, *, limit: float = 0.5, k: int = 1, ordered: bool = False):
        self.params = (limit, k, ordered)
    def update(self, golden, target): ...
    def finish(self): ...
"""


@pytest.fixture
def largest(site: Any) -> None:
    site.module("largest_plugin", SOURCE)
    site.dist("largest-dist", {"dovetail.verifiers": {"Largest": "largest_plugin:Largest"}})


@pytest.mark.parametrize(
    ("text", "name", "params"),
    [
        ("RtolAtol", "RtolAtol", {}),
        ("R,rtolmargin=0.01,atolmargin=1e-3", "R", {"rtolmargin": 0.01, "atolmargin": 1e-3}),
        ("r,rtolmargin,0.01,atolmargin,2", "r", {"rtolmargin": 0.01, "atolmargin": 2}),
        (" TopK , k = 5 , ordered=True ", "TopK", {"k": 5, "ordered": True}),
        ("X,a,1,b=2,c,false", "X", {"a": 1, "b": 2, "c": False}),
        ("X,a=one,b==", "X", {"a": "one", "b": "="}),
    ],
)
def test_texts(text: str, name: str, params: dict[str, Any]) -> None:
    assert parse_verifier(text) == (name, params)


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("", ["missing name of the verifier"]),
        ("X,a", ["missing value of 'a'"]),
        ("X,a=", ["missing value of 'a'"]),
        ("X,a,b=1", ["missing value of 'a'"]),
        ("X,,a=1", ["empty parameter"]),
        ("X,a=1,a=2,=3", ["duplicate parameter 'a'", "missing name of the parameter before '=3'"]),
        (",a", ["missing name of the verifier", "missing value of 'a'"]),
    ],
)
def test_all_faults_of_a_text_are_named(text: str, problems: list[str]) -> None:
    with pytest.raises(ConfigError, match="cannot read the verifier") as caught:
        parse_verifier(text)
    assert sorted(p.message for p in caught.value.problems) == sorted(problems)


NAMES = st.text("abc_", min_size=1)
VALUES = st.booleans() | st.integers() | st.floats(allow_nan=False)


@given(NAMES, st.dictionaries(NAMES, VALUES))
def test_texts_are_read_back(name: str, params: dict[str, Any]) -> None:
    assert parse_verifier(verifier_text(name, params)) == (name, params)


@given(st.text("a,=1 ."))
def test_any_text_is_read_or_rejected(text: str) -> None:
    try:
        name, _ = parse_verifier(text)
    except ConfigError:
        return
    assert name


@pytest.mark.usefixtures("largest")
def test_names_are_found_in_any_case() -> None:
    (found,) = parse_verifiers(["largest,limit=2,ordered,true"])
    assert (found.name, str(found)) == ("Largest", "Largest,limit=2.0,ordered=true")
    made: Any = found.verifier(**found.params)
    assert made.params == (2.0, 1, True)
    assert str(verifier("Largest", {"k": 3})) == "Largest,k=3"


@pytest.mark.usefixtures("largest")
def test_all_faults_of_all_texts_are_named() -> None:
    texts = ["Largets", "Largest,limt=1,k=x", "X,a", "Largest"]
    with pytest.raises(ConfigError) as caught:
        parse_verifiers(texts, where="--compare")
    assert caught.value.where == "--compare"
    found = [str(p) for p in caught.value.problems]
    assert [p.partition(": ")[0] for p in found] == [
        "'Largets'", "'Largest,limt=1,k=x'", "'Largest,limt=1,k=x'", "'X,a'",
    ]  # fmt: skip
    assert "unknown verifier 'Largets' (did you mean 'Largest'?)" in found[0]
    assert "did you mean 'limit'?" in found[1]
    assert "parameters.k" in found[2]
