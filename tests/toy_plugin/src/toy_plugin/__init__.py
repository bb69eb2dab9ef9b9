"""A third party's plugin: it needs only core, and is found by entry points."""
