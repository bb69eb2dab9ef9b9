"""NumPy kernels by family, in modules named like the op set's; `dovetail_numpy` has them all.

A kernel does as much as it can when its step is created and bound. A run is then a flat list of
NumPy calls on arrays that already exist.
"""
