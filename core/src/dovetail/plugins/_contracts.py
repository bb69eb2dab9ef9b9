"""The shape that a loaded plugin must have, stated as data and checked when it is loaded.

A contract names members and the arguments that core passes to them. It refers to types of higher
layers by their qualified names, so that this package imports none of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import NamedTuple

Check = Callable[[object, str], Iterator[str]]


class Contract(NamedTuple):
    """The shape of the objects of one entry-point group.

    Attributes:
        loads: Kind of the object, as users read it.
        is_class: Whether the object is a class, which core instantiates.
        type: Qualified name of the type that the object is an instance of; empty for any type.
        members: Attributes that the object must have. A name alone is an attribute; `name(a, b)` is
            a function that takes two positional arguments; `__init__(a)` applies to the class.
        named: Attributes that hold the parts of the entry point's name between colons; an empty
            one matches any part.
        check: Finds faults that the other fields cannot express, given the object and its name.
    """

    loads: str
    is_class: bool = False
    type: str = ""
    members: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    check: Check | None = None

    def faults(self, found: object, name: str) -> list[str]:
        """Return what keeps a loaded object from meeting the contract; empty if nothing does.

        Args:
            found: The object.
            name: Name of its entry point.
        """
        if self.is_class != isinstance(found, type) and (self.is_class or self.members):
            return [f"expected {self.loads}, got {_kind(found)}"]
        if self.type and self.type not in _types(found):
            return [f"expected {self.loads}, got {_kind(found)}"]
        faults = [*self._missing(found), *self._misnamed(found, name)]
        if not faults and self.check is not None:
            faults += self.check(found, name)
        return faults

    def _missing(self, found: object) -> Iterator[str]:
        missing = []
        for member in self.members:
            name, _, parameters = member.partition("(")
            if not hasattr(found, name):
                missing.append(f"'{member}'")
            elif parameters:
                yield from _call_faults(found, name, member, parameters.rstrip(")").split(", "))
        if missing:
            yield f"missing {', '.join(missing)}"

    def _misnamed(self, found: object, name: str) -> Iterator[str]:
        parts = name.split(":", maxsplit=max(len(self.named) - 1, 0))
        if self.named and len(parts) != len(self.named):
            yield f"the entry point's name '{name}' must have {len(self.named)} parts around ':'"
            return
        for attribute, part in zip(self.named, parts, strict=False):
            value = getattr(found, attribute, part) if attribute else part
            if value != part:
                yield f"'{attribute}' is {value!r}, but the entry point is named '{name}'"


def _kind(found: object) -> str:
    if isinstance(found, type):
        return f"the class {found.__name__}"
    return f"an object of type {type(found).__name__}"


def _types(found: object) -> set[str]:
    return {f"{each.__module__}.{each.__qualname__}" for each in type(found).__mro__}


def _call_faults(found: object, name: str, member: str, parameters: list[str]) -> Iterator[str]:
    """Yield why a member cannot be called with positional arguments of these names."""
    import inspect  # imported here: listing plugins does without it

    count = len([p for p in parameters if p])
    called = getattr(found, name)
    if name == "__init__":
        called = found
    elif isinstance(found, type):
        static = inspect.getattr_static(found, name)
        count += not isinstance(static, staticmethod | classmethod)  # `self`
    if not callable(called):
        yield f"'{name}' cannot be called; expected '{member}'"
        return
    try:
        signature = inspect.signature(called)
    except (TypeError, ValueError):
        return  # compiled code states no signature
    try:
        signature.bind(*[None] * count)
    except TypeError:
        yield f"'{name}' takes {signature}; expected '{member}'"


def pass_faults(found: object, name: str) -> Iterator[str]:
    """Yield why a pass cannot join the pipeline, unless it is a pipeline itself."""
    from dovetail.ir import PHASES  # loads numpy, which listing plugins does not need

    if hasattr(found, "expanded"):
        return
    if missing := [each for each in ("phase", "after") if not hasattr(found, each)]:
        yield from (f"missing '{each}'" for each in missing)
        return
    phase, after = getattr(found, "phase", None), getattr(found, "after", None)
    if not isinstance(phase, str) or phase not in PHASES:
        yield f"unknown phase {phase!r}; expected one of {', '.join(PHASES)}"
    if after is not None and not isinstance(after, str):
        yield f"'after' must be the name of a pass or None, got {after!r}"


def frontend_faults(found: object, name: str) -> Iterator[str]:
    """Yield what is wrong with the suffixes and the options of a frontend."""
    from dovetail.ops.frontend import FrontendOptions  # loads numpy, which listing does not need

    suffixes = getattr(found, "suffixes", ())
    is_several = isinstance(suffixes, tuple | list | set | frozenset)
    if not is_several or not all(isinstance(each, str) for each in suffixes):
        yield f"'suffixes' must be several strings, got {suffixes!r}"
    yield from _options_faults(found, FrontendOptions)


def exporter_faults(found: object, name: str) -> Iterator[str]:
    """Yield what is wrong with the options of an exporter."""
    from dovetail.ops.exporter import ExportOptions  # loads numpy, which listing does not need

    yield from _options_faults(found, ExportOptions)


def _options_faults(found: object, base: type) -> Iterator[str]:
    options = getattr(found, "options_type", None)
    if not isinstance(options, type) or not issubclass(options, base):
        yield f"'options_type' must be {base.__name__} or a class derived from it, got {options!r}"
        return
    try:
        options()
    except TypeError as error:
        yield f"every field of 'options_type' must have a default: {error}"


def verifier_faults(found: object, name: str) -> Iterator[str]:
    """Yield what is wrong with the parameters of a verifier and of its `update`."""
    # imported here: `dovetail --help` needs no numpy
    from dovetail.errors import PluginError
    from dovetail.verification import verifier_params, verifier_tensors

    for check in (verifier_params, verifier_tensors):
        try:
            check(found)  # type: ignore[arg-type]
        except PluginError as error:
            yield f"{error.message} ({error.hint})" if error.hint else error.message


def kernel_faults(found: object, name: str) -> Iterator[str]:
    """Yield kernels of other packages than the entry point's, and kernels of unknown ops."""
    # imported here: `dovetail --help` needs no numpy
    from dovetail.errors import DovetailError
    from dovetail.plugins.ops import installed_ops

    package = name.partition(":")[2]
    registered: list[tuple[str, str]] = list(found)  # type: ignore[call-overload]
    foreign = sorted({other for other, _ in registered if other != package})
    if foreign:
        yield f"kernels for other packages: {', '.join(foreign)}"
        return
    try:
        schemas = installed_ops().package(package).schemas
    except DovetailError:
        return  # without the op package no graph asks for its kernels
    if unknown := sorted(op for _, op in registered if op not in schemas):
        yield f"kernels for ops that package '{package}' lacks: {', '.join(unknown)}"


def model_faults(found: object, name: str) -> Iterator[str]:
    """Yield why an object is not the path of a file."""
    if not isinstance(found, os.PathLike):
        yield f"expected the path of a model, got {_kind(found)}"
    elif not os.path.isfile(found):
        yield f"'{os.fspath(found)}' is not a file"


def hook_faults(found: object, name: str) -> Iterator[str]:
    """Yield why an object cannot be registered as a hook plugin.

    What a function returns is checked at the first event, when it is called.
    """
    if isinstance(found, FunctionType):
        import inspect  # imported here: listing plugins does without it

        if any(p.default is p.empty for p in inspect.signature(found).parameters.values()):
            yield f"'{found.__name__}' takes arguments; expected '{found.__name__}()'"
        return
    # imported here: most processes have no hooks, and pluggy takes time to load
    from dovetail.errors import PluginError
    from dovetail.plugins.hooks import Hooks

    try:
        Hooks().register(found)
    except PluginError as error:
        yield f"{error.message} ({error.hint})" if error.hint else error.message
