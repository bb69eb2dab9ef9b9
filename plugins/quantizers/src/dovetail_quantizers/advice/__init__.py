"""Advice on options, from an estimate of the noise that each part of a quantization adds."""
