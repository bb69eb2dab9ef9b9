"""Settings of all tests in the workspace."""

import os

from hypothesis import settings

# A busy machine takes longer than any deadline that means something; nothing asserts times.
settings.register_profile("workspace", deadline=None)
settings.load_profile("workspace")
# Tests leave nothing in the user's cache folder; those of the cache name one of their own.
os.environ["DOVETAIL_CACHE"] = ""
