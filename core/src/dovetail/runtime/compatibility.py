"""Compatibility of context binaries with a backend, judged by facts before anything is loaded."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterator, Mapping

import msgspec

from dovetail.errors import ContainerError, Problem
from dovetail.runtime.capabilities import Options

# Facts with these prefixes exist for each op package; those of packages that no graph of a binary
# uses do not matter.
OP_PACKAGE = "op package "
KERNELS = "kernels of "
OPTION = "option "
# Of a backend that emulates several processors, of which the config of a device selects one.
PROCESSOR = "processor"

# Graphs that were prepared for another number of threads run, and return the same.
_USABLE = frozenset({"threads", f"{OPTION}num_threads"})
_CODE = "CONTAINER_INCOMPATIBLE"


class Verdict(enum.IntEnum):
    """Suitability of a context binary for a backend, from best to worst."""

    OPTIMAL = 0  # as if it had been created here
    USABLE = 1  # runs, with the same results, but was prepared for something else
    RECOMPILE = 2  # its graphs must be prepared again, from the model
    UNSUPPORTED = 3  # not even that


class Reason(msgspec.Struct, frozen=True):
    """A fact that differs.

    Attributes:
        fact: Name of the fact.
        found: Its value in the binary; empty if it has none.
        here: Its value here; empty if there is none.
        verdict: What the difference means.
    """

    fact: str
    found: str
    here: str
    verdict: Verdict

    def __str__(self) -> str:
        return f"{self.fact} is {self.here or 'unknown'}, the binary's is {self.found or 'unknown'}"


class Compatibility(msgspec.Struct, frozen=True):
    """The verdict on a context binary.

    Attributes:
        verdict: The verdict.
        reasons: Each fact that differs and matters.
    """

    verdict: Verdict
    reasons: tuple[Reason, ...] = ()

    def require(self, worst: Verdict, where: str, *, has_model: bool = False) -> None:
        """Raise unless the verdict is good enough.

        Args:
            worst: The worst accepted verdict.
            where: Name of the binary.
            has_model: Whether the binary has the models that it was created from.

        Raises:
            ContainerError: It is worse; every reason is listed.
        """
        if self.verdict <= worst:
            return
        reasons = [reason for reason in self.reasons if reason.verdict > worst]
        if self.verdict is Verdict.UNSUPPORTED:
            is_package = all(reason.fact != "backend" for reason in reasons)
            hint = "install the op package, or pass it with --op-packages"
            hint = hint if is_package else "create it for this backend"
        elif has_model:
            hint = "prepare it again with `dovetail context upgrade`"
        else:
            hint = "create it again with this backend, its options and this machine"
        if all(_is_chosen(reason.fact) for reason in reasons):
            hint = (
                f"load it with the device and options of its preparation (--config-file), or {hint}"
            )
        raise ContainerError(
            f"the context binary was created elsewhere ({self.verdict.name})",
            code=_CODE,
            where=where,
            problems=[Problem(str(reason)) for reason in reasons],
            hint=hint,
        )


def option_facts(options: Options) -> dict[str, str]:
    """Return a backend's options as facts; files that they name, on which no plan depends, are not.

    Those have their defaults, so that facts hold no path of a machine.
    """
    plain = msgspec.to_builtins(type(options)())
    plain |= options.without_files(msgspec.to_builtins(options))
    encode = msgspec.json.encode
    return {f"{OPTION}{k}": encode(v, order="sorted").decode() for k, v in plain.items()}


def judge(found: Mapping[str, str], here: Mapping[str, str]) -> Compatibility:
    """Return the verdict on facts of a context binary.

    Args:
        found: The facts of the binary.
        here: The facts of the backend.
    """
    reasons = tuple(sorted(_reasons(found, here), key=lambda r: (-r.verdict, r.fact)))
    # another backend has other facts, which say nothing
    reasons = tuple(r for r in reasons if r.fact == "backend") or reasons
    return Compatibility(max((r.verdict for r in reasons), default=Verdict.OPTIMAL), reasons)


def used_facts(facts: Mapping[str, str], packages: Collection[str]) -> dict[str, str]:
    """Return facts without those of op packages that are not used.

    Args:
        facts: All facts.
        packages: Names of the used op packages.
    """
    return {
        name: value
        for name, value in facts.items()
        if (package := _package(name)) is None or package in packages
    }


def _reasons(found: Mapping[str, str], here: Mapping[str, str]) -> Iterator[Reason]:
    for name in found.keys() | here.keys():
        there, own = found.get(name, ""), here.get(name, "")
        is_unused = name not in found and _package(name) is not None
        if there != own and not is_unused:
            yield Reason(name, there, own, _verdict(_plain(name), own))


def _verdict(fact: str, own: str) -> Verdict:
    if fact in _USABLE:
        return Verdict.USABLE
    is_missing = fact.startswith(OP_PACKAGE) and not own
    return Verdict.UNSUPPORTED if is_missing or fact == "backend" else Verdict.RECOMPILE


def _is_chosen(fact: str) -> bool:
    """Return whether a config decides a fact."""
    plain = _plain(fact)
    return plain == PROCESSOR or plain.startswith(OPTION)


def _plain(fact: str) -> str:
    """Return the name of a fact without the indices of members of `hetero`."""
    while (head := fact.partition("/"))[1] and head[0].isdigit():
        fact = head[2]
    return fact


def _package(fact: str) -> str | None:
    """Return the op package that a fact is about, or None."""
    fact = _plain(fact)
    for prefix in (OP_PACKAGE, KERNELS):
        if fact.startswith(prefix):
            return fact.removeprefix(prefix)
    return None
