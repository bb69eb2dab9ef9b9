"""Checks of the arguments of public functions against their annotations.

They check the type of each argument, the items of sequences and the text of paths. What the
values mean is checked where they are used.
"""

from __future__ import annotations

import functools
import inspect
import numbers
import os
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

import msgspec
import numpy as np

from dovetail.errors import ConfigError, Problem

P = ParamSpec("P")
R = TypeVar("R")

# Types with usual names, and what else is accepted where they are expected.
_NAMES: Mapping[type, str] = {
    types.NoneType: "None",
    str: "a string",
    bool: "True or False",
    int: "an integer",
    float: "a number",
    type: "a class",
    Mapping: "a mapping",
    Callable: "a function",  # type: ignore[dict-item]
    np.ndarray: "a NumPy array",
    os.PathLike: "a path",
}
_MAX_KNOWN = 32  # types that a rule remembers: a program may make any number of them
# Subclasses that do not mean their base class: text is no sequence of characters.
_NOT: Mapping[type, tuple[type, ...]] = {int: (bool,), Sequence: (str, bytes)}
_ALSO: Mapping[type, type] = {
    bool: np.bool_,
    int: numbers.Integral,
    float: numbers.Real,
    Mapping: dict,
}


def check_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function: raise for arguments that do not match its annotations.

    Raises:
        ConfigError: An argument has a wrong type (USAGE); all of them are listed.
    """
    rules: ArgumentRules | None = None

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        nonlocal rules
        if rules is None:
            rules = ArgumentRules.of(function)
        # most calls take some 0.3 us here: a run of a small network takes 40
        if kwargs or not all(map(isinstance, args, rules.quick)):
            rules.check(args, kwargs)
        return function(*args, **kwargs)

    return checked


def check_fields(value: object) -> None:
    """Raise if the fields of a dataclass do not match their annotations.

    Raises:
        ConfigError: A field has a wrong type (USAGE); all of them are listed.
    """
    hints = typing.get_type_hints(type(value))
    rules = {name: _Rule.of(hint) for name, hint in hints.items()}
    ArgumentRules(type(value).__name__, rules, ()).check((), {n: getattr(value, n) for n in rules})


def without_numpy(value: object) -> Any:
    """Return nested data of a caller with Python's numbers and lists instead of NumPy's."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: without_numpy(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_numpy(item) for item in value]
    return value


class _Rule(msgspec.Struct, frozen=True, eq=False):
    """The values that an annotation allows.

    Attributes:
        types: Allowed types.
        excluded: Subclasses of these that are not allowed.
        expected: Their names, for users.
        item: Rule of the items if the value is a sequence.
        is_path: Whether text must be usable as a path.
        known: Allowed types of earlier values: searching them is faster than `isinstance`, by
            hundreds of times for a protocol.
    """

    types: tuple[type, ...]
    excluded: tuple[type, ...]
    expected: str
    item: _Rule | None = None
    is_path: bool = False
    known: set[type] = msgspec.field(default_factory=set)

    @classmethod
    def of(cls, hint: Any) -> _Rule:
        """Return the rule of an annotation."""
        options = [option for each in _alternatives(hint) for option in _classes(each)]
        is_path = os.PathLike in options
        items = [arg for each in _alternatives(hint) if (arg := _item(each)) is not None]
        item = cls.of(typing.Union[tuple(items)]) if items else None  # noqa: UP007 - built here
        if item is not None and object in item.types:
            item = None  # any items
        shown = [each for each in options if not (is_path and each is str)]
        names = list(dict.fromkeys(_name(each, item) for each in shown))
        names.sort(key=lambda name: name == "None")
        expected = " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))
        also = (_ALSO[each] for each in options if each in _ALSO)  # first: a quick test
        excluded = {kind for each in options for kind in _NOT.get(each, ())} - {*options, object}
        return cls((*also, *options), tuple(excluded), expected, item, is_path)

    @property
    def quick(self) -> tuple[type, ...]:
        """Types of values that need no other check."""
        needs_more = self.excluded or self.item is not None or self.is_path
        return () if needs_more else self.types

    def fault(self, value: object) -> str:
        """Return the end of the sentence "the argument cannot"; empty if the value is allowed."""
        if type(value) not in self.known:
            if not isinstance(value, self.types) or isinstance(value, self.excluded):
                return f"be {_described(value)}"
            if len(self.known) < _MAX_KNOWN:
                self.known.add(type(value))
        if self.is_path and isinstance(value, str | os.PathLike):
            return _path_fault(value)
        if self.item is None or isinstance(value, str) or not isinstance(value, Sequence):
            return ""
        faults = (self.item.fault(each) for each in value)
        return next((f"contain {fault.partition(' ')[2]}" for fault in faults if fault), "")


class ArgumentRules(msgspec.Struct, frozen=True):
    """The rules of a function's parameters, from its annotations.

    Attributes:
        owner: The function in the user's terms.
        by_name: Rules of the parameters, in order.
        quick: Types of positional arguments that need no other check.
        rest: Index of a parameter `*args`, whose rule is that of all its arguments together.
    """

    owner: str
    by_name: Mapping[str, _Rule]
    quick: tuple[tuple[type, ...], ...]
    rest: int | None = None

    @classmethod
    def of(cls, function: Callable[..., object]) -> ArgumentRules:
        """Return the rules of a function."""
        hints, rules, rest = _hints(function), {}, None
        for i, (name, parameter) in enumerate(inspect.signature(function).parameters.items()):
            hint = hints.get(name, Any)
            if parameter.kind is parameter.VAR_POSITIONAL:
                rest, hint = i, types.GenericAlias(Sequence, (hint,))
            if parameter.kind is not parameter.VAR_KEYWORD:
                rules[name] = _Rule.of(hint)
        quick = tuple(rule.quick for rule in rules.values()) if rest is None else ((),)
        return cls(function.__qualname__.removesuffix(".__init__"), rules, quick, rest)

    def depends_on_type_alone(self, name: str) -> bool:
        """Return whether all values of a type are allowed if one of them is."""
        rule = self.by_name[name]
        return rule.item is None and not rule.is_path

    def check(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> None:
        """Raise one error for all arguments that are not allowed."""
        if self.rest is not None and len(args) > self.rest:
            args = (*args[: self.rest], args[self.rest :])
        self.check_named(dict(zip(self.by_name, args, strict=False)) | dict(kwargs))

    def check_named(self, given: Mapping[str, object]) -> None:
        """Raise one error for all arguments that are not allowed, given by name.

        Raises:
            ConfigError: An argument has a wrong type (USAGE); all of them are listed.
        """
        problems = [
            Problem(f"argument '{name}' cannot {fault}", hint=f"pass {rule.expected}")
            for name, rule in self.by_name.items()
            if name in given and (fault := rule.fault(given[name]))
        ]
        if len(problems) == 1:
            (only,) = problems
            raise ConfigError(only.message, code="USAGE", where=self.owner, hint=only.hint)
        if problems:
            text = "arguments have wrong types"
            raise ConfigError(text, code="USAGE", where=self.owner, problems=problems)


def _hints(function: Callable[..., object]) -> dict[str, Any]:
    """Return a function's annotations; names imported only for the type checker mean any type."""
    unknown: dict[str, Any] = {}
    while True:
        try:
            return typing.get_type_hints(function, localns=unknown)
        except NameError as error:
            if error.name is None or error.name in unknown:
                raise
            unknown[error.name] = Any


def _alternatives(hint: Any) -> tuple[Any, ...]:
    """Return the members of a union, or the annotation itself."""
    origin = typing.get_origin(hint)
    if origin is typing.Annotated:
        return _alternatives(typing.get_args(hint)[0])
    if origin in (typing.Union, types.UnionType):
        return tuple(a for each in typing.get_args(hint) for a in _alternatives(each))
    return (hint,)


def _classes(hint: Any) -> tuple[type, ...]:
    """Return the classes of values that an annotation other than a union allows."""
    origin = typing.get_origin(hint) or hint
    if origin is typing.Literal:
        return tuple(type(each) for each in typing.get_args(hint))
    if origin is tuple:
        return (Sequence,)
    try:
        isinstance(None, origin)
    except TypeError:  # Any, a type variable, or a protocol without support for this test
        return (object,)
    return (origin,)


def _item(hint: Any) -> Any:
    """Return the annotation of the items of a sequence; None for other annotations."""
    arguments = typing.get_args(hint)
    return arguments[0] if arguments and Sequence in _classes(hint) else None


def _name(kind: type, item: _Rule | None) -> str:
    if kind is Sequence:
        return f"a sequence of values, each {item.expected}" if item else "a sequence"
    article = "an" if kind.__name__[0] in "AEIOU" else "a"
    return _NAMES.get(kind, f"{article} {kind.__name__}")


def _described(value: object) -> str:
    return "None" if value is None else f"an object of type {type(value).__name__}"


def _path_fault(value: str | os.PathLike[Any]) -> str:
    """Return why a value is no path of a file; see `_Rule.fault`."""
    text = os.fspath(value)
    if not isinstance(text, str):
        return f"be {_described(text)}"
    try:
        os.fsencode(text)
    except UnicodeEncodeError as error:
        char = text[error.start]
        if "\ud800" <= char <= "\udfff":
            return "contain half a surrogate pair"
        return f"contain {char!r}, which {error.encoding} file names cannot have"
    return "contain a NUL character" if "\0" in text else ""
