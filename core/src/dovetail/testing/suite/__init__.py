"""The conformance suite as pytest collects it; the plugin `dovetail.testing.plugin` feeds it."""
