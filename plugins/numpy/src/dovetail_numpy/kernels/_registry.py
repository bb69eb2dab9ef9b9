"""The kernel registry, which the modules of this package fill."""

from collections.abc import Callable

from dovetail.runtime.plan import KernelRegistry, Make

KERNELS = KernelRegistry("numpy")
PACKAGE = "qti.aisw"


def move(op_type: str) -> Callable[[Make], Make]:
    """Register the decorated function for real values and for stored integers.

    It must decline tensors whose encodings differ, see `only_moves`.
    """

    def register(make: Make) -> Make:
        KERNELS.register(PACKAGE, op_type)(make)
        return KERNELS.register(PACKAGE, op_type, quantized=True)(make)

    return register
