"""Settings of all tests in the workspace."""

import copy
import gc
import os
import shutil
import sys
import tempfile
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
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


def pytest_collection_finish(session: pytest.Session) -> None:
    """Keep the tests, which are many, out of garbage collections; see `same_numbers`."""
    for item in session.items:
        _generators(getattr(item, "module", None))
    gc.freeze()


@pytest.fixture(autouse=True)
def same_numbers(request: pytest.FixtureRequest) -> None:
    """Let a test draw the same numbers from its module's generators, whatever ran before it."""
    for generator in _generators(getattr(request, "module", None)):
        generator.bit_generator.state = _first_state(generator)


@cache
def _generators(module: ModuleType | None) -> tuple[np.random.Generator, ...]:
    """Return the generators of a module and of those that it imports from: helpers of tests."""
    members = vars(module).values() if module is not None else ()
    names = {str(getattr(each, "__module__", "")) for each in members}
    modules = [vars(sys.modules[name]).values() for name in names & set(sys.modules)]
    found = [x for each in (members, *modules) for x in each if isinstance(x, np.random.Generator)]
    for generator in found:
        _first_state(generator)
    return tuple(dict.fromkeys(found))


@cache
def _first_state(generator: np.random.Generator) -> Any:
    return copy.deepcopy(generator.bit_generator.state)
