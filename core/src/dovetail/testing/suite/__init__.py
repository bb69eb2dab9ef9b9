"""The conformance suite that pytest collects; `dovetail.testing.plugin` parametrizes it."""
