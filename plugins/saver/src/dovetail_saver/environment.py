"""The hook plugin `recorder`: records a process whose environment asks for it.

Nothing else is imported here, so that other processes start as fast as without it.
"""

from __future__ import annotations

import os

FOLDER = "DOVETAIL_RECORD"
PAYLOADS = "DOVETAIL_RECORD_PAYLOADS"


def installed() -> object | None:
    """Return the hooks that record this process; None if `DOVETAIL_RECORD` is not set.

    Raises:
        ConfigError: `DOVETAIL_RECORD_PAYLOADS` has an unknown value.
    """
    folder = os.environ.get(FOLDER)
    if not folder:
        return None
    from dovetail_saver.recording import record_process

    return record_process(folder, os.environ.get(PAYLOADS) or "all")
