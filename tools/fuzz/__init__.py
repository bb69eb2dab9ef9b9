"""Mutated files against the converters: seeds, mutations, workers with limits, a summary."""
