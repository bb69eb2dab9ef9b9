"""Whose fault it is: errors that come out of a backend plugin's own code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dovetail.errors import BackendError, DovetailError


@contextmanager
def translate_errors(backend: str, failed: str, code: str) -> Iterator[None]:
    """Name the backend where something else than an error of ours comes out of its code.

    Args:
        backend: Name of the backend.
        failed: What has failed if something does.
        code: Of the error.

    Raises:
        BackendError: The plugin's code failed, or its library or device.
    """
    try:
        yield
    except DovetailError:
        raise
    except Exception as error:
        raise BackendError(
            f"{failed}: {type(error).__name__}: {error}",
            code=code,
            where=f"backend '{backend}'",
        ) from error
