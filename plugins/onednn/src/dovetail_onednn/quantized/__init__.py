"""Kernels that compute on stored integers, with the same bits as `dovetail_numpy.integer`."""
