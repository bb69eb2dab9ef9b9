"""Options of converters about inputs and outputs: layouts, types, encodings, colors."""

from dovetail_tools._interface.forms import InterfaceOptions, InterfaceRequest, read_interface
from dovetail_tools._interface.templates import custom_io_template, io_config_template

__all__ = [
    "InterfaceOptions",
    "InterfaceRequest",
    "custom_io_template",
    "io_config_template",
    "read_interface",
]
