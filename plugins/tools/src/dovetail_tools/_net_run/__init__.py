"""Runs of models on input lists, for `dovetail net-run`."""
