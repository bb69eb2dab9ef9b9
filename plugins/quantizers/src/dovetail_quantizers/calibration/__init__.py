"""Calibration: runs of the float graph over samples, and the observed ranges."""
