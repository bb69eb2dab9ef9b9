"""Decoding of manifests, of newer minor versions too."""

from __future__ import annotations

from typing import Any, TypeVar, overload

import msgspec

from dovetail.container._manifest import Manifest, ManifestError
from dovetail.container._versions import MINOR, check_requirements
from dovetail.typed import convert, drop_unknown_keys

M = TypeVar("M", bound=Manifest)
T = TypeVar("T")


class _Version(msgspec.Struct, frozen=True):
    """The version of any manifest, whatever else is in it."""

    minor: int = 0
    requires: tuple[str, ...] = ()


@overload
def decode_json(raw: memoryview, where: str) -> Any: ...


@overload
def decode_json(raw: memoryview, where: str, to: type[T]) -> T: ...


def decode_json(raw: memoryview, where: str, to: Any = Any) -> Any:
    """Return the value in JSON bytes.

    Args:
        raw: The bytes.
        where: Their name, for errors.
        to: Type of the value.

    Raises:
        ContainerError: The bytes are not valid JSON, or have a value of another type.
    """
    try:
        return msgspec.json.decode(raw, type=to)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ManifestError(f"not valid: {error}", where=where) from error
    except RecursionError as error:
        raise ManifestError("nested too deeply", where=where) from error


def decode_manifest(raw: memoryview, to: type[M], where: str) -> M:
    """Return the manifest in JSON bytes.

    Raises:
        ContainerError: The bytes are not valid JSON, have unknown keys although their minor version
            is known, have values of a wrong type, or require something unknown.
    """
    try:
        try:
            manifest = msgspec.json.decode(raw, type=to)
        except msgspec.ValidationError:
            # Decoded again without types, to report every unknown key with its nearest valid one.
            data = msgspec.json.decode(raw)
            version = _version_of(data)
            check_requirements(version.requires, where)
            if version.minor > MINOR:
                drop_unknown_keys(data, to)
            return convert(data, to, where=where, error=ManifestError)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ManifestError(f"the manifest is not valid JSON: {error}", where=where) from error
    except RecursionError as error:
        raise ManifestError("the manifest is nested too deeply", where=where) from error
    check_requirements(manifest.requires, where)
    return manifest


def _version_of(data: object) -> _Version:
    try:
        return msgspec.convert(data, _Version)
    except (msgspec.ValidationError, UnicodeError):
        return _Version()  # the conversion of the whole manifest reports it
