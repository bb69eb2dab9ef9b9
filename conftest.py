"""Settings of all tests in the workspace."""

import gc
import os
import shutil
import tempfile

import pytest
from hypothesis import settings

# A busy machine takes longer than any deadline that means something; nothing asserts times.
settings.register_profile("workspace", deadline=None)
settings.load_profile("workspace")

_CACHE = "DOVETAIL_CACHE"
_OWNER = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """Leave the user's cache alone: processes of the tests, which inherit this, share another."""
    if _CACHE not in os.environ:
        config.stash[_OWNER] = os.environ[_CACHE] = tempfile.mkdtemp(prefix="dovetail-tests-")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the cache, in the process that created it."""
    if (folder := config.stash.get(_OWNER, None)) is not None:
        shutil.rmtree(folder, ignore_errors=True)


def pytest_collection_finish() -> None:
    """Keep the tests, which are many, out of garbage collections."""
    gc.freeze()
