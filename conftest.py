"""Settings of all tests in the workspace."""

import gc

from hypothesis import settings

# A busy machine takes longer than any deadline that means something; nothing asserts times.
settings.register_profile("workspace", deadline=None)
settings.load_profile("workspace")


def pytest_collection_finish() -> None:
    """Keep the tests, which are many, out of garbage collections."""
    gc.freeze()
