"""The emulated processors: a family, an architecture, a system on chip."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from dovetail.errors import ConfigError, Problem
from dovetail_htp.configs import HtpDevice
from dovetail_htp.socs import Soc, find_soc

_MB = 2**20


@dataclass(frozen=True, slots=True)
class Family:
    """A family of processors, which is a backend.

    Attributes:
        name: Name of the backend, and of its table of ops and types.
        archs: Its architectures, oldest first; empty if the sources name none.
        default: The architecture of a device without settings.
        vtcm_mb: Size of its fast memory in MB where the sources do not say; 0 if it has none.
    """

    name: str
    archs: tuple[int, ...] = ()
    default: int = 0
    vtcm_mb: int = 0


FIRST_SHARING = 73
HTP = Family("htp", (68, 69, 73, 75, 79, 81, 85), 73, 4)
DSP = Family("dsp", (65, 66), 66)
HTA = Family("hta")
LPAI = Family("lpai", (1, 2, 3, 4, 5, 6, 7), 6)
FAMILIES = {family.name: family for family in (HTP, DSP, HTA, LPAI)}


@dataclass(frozen=True, slots=True)
class Processor:
    """An emulated processor.

    Attributes:
        family: Its family.
        arch: Its architecture; 0 if the family has none.
        soc: The system on chip, if the device names one.
    """

    family: Family
    arch: int
    soc: Soc | None = None

    @property
    def vtcm_bytes(self) -> int:
        """Size of VTCM; that of the family where the sources do not say."""
        known = self.soc.vtcm_mb if self.soc is not None else None
        return (known or self.family.vtcm_mb) * _MB

    def __str__(self) -> str:
        arch = f" v{self.arch}" if self.arch else ""
        return f"{self.family.name}{arch}{f' of {self.soc.name}' if self.soc else ''}"


def processor(family: Family, arch: str | None, device: HtpDevice) -> Processor:
    """Return the processor that options and device settings describe.

    Args:
        family: Its family.
        arch: The architecture in the options.
        device: The device.

    Raises:
        ConfigError: They name something unknown, or contradict each other; all faults are listed.
    """
    problems: list[Problem] = []
    soc = _soc_of(device, problems)
    own = soc.arch if soc is not None else None
    if soc is not None and own is not None and family.archs and own not in family.archs:
        problems.append(_foreign(family, soc, own))
        own = None
    found = {"soc_model": own} if own else {}
    named = {"dsp_arch": device.dsp_arch, "htp_arch": device.htp_arch, "arch": arch}
    for key, text in named.items():
        if text is None:
            continue
        number = _arch_of(text, family)
        if number is None:
            allowed = ", ".join(f"v{a}" for a in family.archs) or "none"
            problems.append(
                Problem(f"unsupported architecture '{text}' of '{family.name}'", key, allowed)
            )
        else:
            found[key] = number
    problems += _contradictions(found)
    if problems:
        raise ConfigError("the device cannot be emulated", where="device", problems=problems)
    return Processor(family, next(iter(found.values()), family.default), soc)


def require_weight_sharing(target: Processor) -> None:
    """Raise unless graphs of a context can share weights on a processor.

    Raises:
        ConfigError: It is no HTP, or of an architecture below v73.
    """
    if target.family is not HTP or target.arch < FIRST_SHARING:
        raise ConfigError(
            f"'{target}' has no weight sharing, which begins with v{FIRST_SHARING} of the HTP",
            where="context.weight_sharing_enabled",
            hint="remove the key, or prepare for a newer processor; equal weights are stored once "
            "in any case",
        )


def newer_socs(device: HtpDevice) -> list[int]:
    """Return the numbers of SoCs that no table has, of a device that states an architecture."""
    if not (device.dsp_arch or device.htp_arch):
        return []
    numbers = (n for n in (device.soc_model, device.soc_id) if isinstance(n, int) and n > 0)
    return [number for number in numbers if not _is_known(number)]


def _is_known(number: int) -> bool:
    try:
        find_soc(number)
    except ValueError:
        return False
    return True


def _soc_of(device: HtpDevice, problems: list[Problem]) -> Soc | None:
    """Return the SoC of a device; add a problem if it is unknown or there are two."""
    given = {"soc_model": device.soc_model, "soc_id": device.soc_id}
    newer = newer_socs(device)
    found: dict[str, Soc] = {}
    for key, model in given.items():
        if model and model not in newer:
            try:
                found[key] = find_soc(model)
            except ValueError as error:
                problems.append(Problem(str(error), key))
    if len({soc.id for soc in found.values()}) > 1:
        named = " and ".join(f"{key} {soc.name}" for key, soc in found.items())
        problems.append(Problem(f"two SoCs: {named}", "soc_id", "remove soc_id, the older key"))
    return next(iter(found.values()), None)


def _arch_of(text: str, family: Family) -> int | None:
    number = re.fullmatch(r"[vV]?(\d{1,3})", text)
    found = int(number[1]) if number else None
    return found if found in family.archs else None


def _foreign(family: Family, soc: Soc, arch: int) -> Problem:
    other = next((f.name for f in FAMILIES.values() if arch in f.archs), None)
    has = f"has the architecture v{arch}" if arch else "has no such processor"
    hint = f"use the backend '{other}'" if other else ""
    return Problem(f"{soc.name} (SoC {soc.id}) {has}, not '{family.name}'", "soc_model", hint)


def _contradictions(found: dict[str, int]) -> Iterator[Problem]:
    first = next(iter(found.items()), None)
    for key, arch in found.items():
        if first is not None and arch != first[1]:
            yield Problem(f"v{arch} contradicts v{first[1]} of {first[0]}", key, "remove one")
