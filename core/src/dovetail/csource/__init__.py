"""C source with structs of QNN's API: literals, initializers, constants, layouts of structs."""

from dovetail.csource.constants import CONSTANTS, constants_of
from dovetail.csource.initializers import Designated, Text, Value, parse, parse_numbers

__all__ = [
    "CONSTANTS",
    "Designated",
    "Text",
    "Value",
    "constants_of",
    "parse",
    "parse_numbers",
]
