"""Calibration: the float graph run over samples, and what is observed of its tensors."""
