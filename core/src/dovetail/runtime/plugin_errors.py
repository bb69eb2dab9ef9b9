"""Translation of exceptions raised by the code of backend plugins."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from dovetail.errors import BackendError, DovetailError

log = logging.getLogger("dovetail.runtime")


@contextmanager
def translate_errors(backend: str, failed: str, code: str) -> Iterator[None]:
    """Translate foreign exceptions into a BackendError that names the backend.

    Args:
        backend: Name of the backend.
        failed: Beginning of the message: what failed.
        code: Code of the error.

    Raises:
        BackendError: The plugin's code raised an exception other than a DovetailError;
            CONTEXT_ERROR_MEM_ALLOC for a MemoryError.
    """
    try:
        yield
    except DovetailError:
        raise
    except MemoryError as error:
        raise BackendError(
            f"{failed}: {error}" if str(error) else f"{failed}: there is not enough memory",
            code="CONTEXT_ERROR_MEM_ALLOC",
            where=f"backend '{backend}'",
            hint="use a smaller batch or smaller shapes, or free other contexts and sessions",
        ) from error
    except Exception as error:
        raise BackendError(
            f"{failed}: {type(error).__name__}: {error}",
            code=code,
            where=f"backend '{backend}'",
        ) from error


@contextmanager
def log_errors(doing: str) -> Iterator[None]:
    """Log exceptions raised by a plugin's code instead of raising them: handles end in any case.

    Args:
        doing: What fails, for the log.
    """
    try:
        yield
    except Exception:
        log.exception("%s failed", doing)
