"""Contract of verifiers.

A verifier is a class that an entry point of `dovetail.verifiers` loads. Its parameters are keywords
with defaults; each object compares one tensor block by block, or several that it reads together:

    class LargestError:
        def __init__(self, *, threshold: float = 0.01) -> None: ...
        def update(self, golden: Array, target: Array) -> None: ...
        def finish(self) -> Comparison: ...

Its result depends on the arrays and the parameters only, so that `ConfiguredVerifier.compare` is a
pure function of them.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from dovetail.errors import PluginError
from dovetail.verification.comparison import Comparison

_HINT = "parameters of a verifier are keywords with defaults: __init__(self, *, threshold=0.01)"
_UPDATE_HINT = "take two arrays for each tensor: update(self, golden, target)"


@runtime_checkable
class Verifier(Protocol):
    """Compares a tensor with the expected one, block by block.

    Memory must not grow with the number of blocks or of elements.
    """

    @property
    def update(self) -> Callable[..., None]:
        """Compare a block: `update(golden, target)`.

        A verifier that reads several tensors together takes two arrays for each, as in
        `update(golden_boxes, target_boxes, golden_classes, target_classes)`.

        Blocks are samples, or parts of one tensor along its first axis. The result is that of the
        concatenated blocks.

        The method's arguments are, by position:
            golden: Expected real values, any shape, possibly empty; boolean, integer or float. Must
                not be changed; valid during the call only.
            target: Real values to check, of the same shape, but not always of the same type.

        Raises:
            VerificationError: The verifier is not defined for arrays of this shape.
        """

    def finish(self) -> Comparison:
        """Return the comparison of all blocks so far. More blocks may follow."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a verifier.

    Attributes:
        name: Its name.
        type: Its type, for `msgspec.convert`; may be annotated with a range.
        default: Its default.
    """

    name: str
    type: Any
    default: Any


def verifier_params(verifier: type[Verifier]) -> tuple[Parameter, ...]:
    """Return the parameters of a verifier's class.

    Raises:
        PluginError: The constructor takes anything but keywords with defaults.
    """
    where = _where(verifier)
    declared = _parameters(verifier, where)
    if any(p.kind is not p.KEYWORD_ONLY or p.default is p.empty for p in declared):
        raise PluginError("unexpected signature of the constructor", where=where, hint=_HINT)
    try:
        hints = typing.get_type_hints(verifier.__init__, include_extras=True)
    except (NameError, TypeError, AttributeError):  # types that only a type checker knows
        hints = {}
    return tuple(Parameter(p.name, hints.get(p.name, type(p.default)), p.default) for p in declared)


def verifier_tensors(verifier: type[Verifier]) -> int:
    """Return how many tensors a verifier reads together; 1 for most.

    Raises:
        PluginError: `update` does not take two arrays for each tensor.
    """
    where = _where(verifier)
    declared = _parameters(verifier.update, where)[1:]  # without `self`
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if not declared or len(declared) % 2 or any(p.kind not in positional for p in declared):
        raise PluginError("unexpected signature of 'update'", where=where, hint=_UPDATE_HINT)
    return len(declared) // 2


def _parameters(of: Callable[..., object], where: str) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(of).parameters.values())
    except (TypeError, ValueError) as error:
        raise PluginError("cannot inspect the parameters", where=where) from error


def _where(verifier: object) -> str:
    return f"verifier '{getattr(verifier, '__name__', type(verifier).__name__)}'"
