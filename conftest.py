"""Settings of all tests in the workspace."""

from hypothesis import settings

# A busy machine takes longer than any deadline that means something; nothing asserts times.
settings.register_profile("workspace", deadline=None)
settings.load_profile("workspace")
