"""Fast paths: a method is called directly while nothing about the call needs attention.

A wrapper that takes `*args` and `**kwargs` adds 0.14 us to a call before it does anything, and 0.5
more to name its arguments; a function with the method's own parameters adds 0.05. So that function
is generated, from nothing but the names of the parameters. For a method with the parameters
`self, inputs, outputs=None` it is

    def execute(self, inputs, outputs=outputs_default):
        if _hooks.active:
            return _announced(self, {'inputs': inputs, 'outputs': outputs})
        if (
            self._freed
            or type(inputs) not in inputs_types
            or (outputs is not None and type(outputs) not in outputs_types)
        ):
            return _slow(self, inputs, outputs)
        return _method(self, inputs, outputs)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, cast

from dovetail.plugins.hooks import hooks


def parameters_of(method: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of a function's parameters, all of which can be passed by position."""
    code = cast("FunctionType", method).__code__  # `inspect.signature` takes 10 times as long
    return code.co_varnames[: code.co_argcount]


def with_fast_path(
    method: Callable[..., Any],
    slow: Callable[..., Any],
    accepted: Mapping[str, set[type]],
    announced: Callable[..., Any],
) -> Callable[..., Any]:
    """Return a function with a method's parameters that calls it, or another where it must.

    Args:
        method: A method of a handle; its parameters can all be passed by position.
        slow: Called with the handle and all arguments, defaults included, if the handle was freed,
            or an argument's type is not among the accepted ones.
        accepted: Types of arguments that need no check, by parameter; they may grow. None is
            accepted where it is the default.
        announced: Called with the handle and a new dict of all arguments if there are hooks.
    """
    owner, *parameters = parameters_of(method)
    given_defaults = cast("FunctionType", method).__defaults__ or ()
    defaults = dict(zip(reversed(parameters), reversed(given_defaults), strict=False))
    names: dict[str, object] = {
        "_hooks": hooks, "_announced": announced, "_method": method, "_slow": slow,
    }  # fmt: skip
    declared, tests = [owner], [f"{owner}._freed"]
    for name in parameters:
        test = f"type({name}) not in {name}_types"
        names[f"{name}_types"] = accepted[name]
        if name in defaults:
            declared.append(f"{name}={name}_default")
            names[f"{name}_default"] = defaults[name]
            if defaults[name] is None:
                test = f"({name} is not None and {test})"
        else:
            declared.append(name)
        tests.append(test)
    given = ", ".join((owner, *accepted))
    named = ", ".join(f"{name!r}: {name}" for name in accepted)
    text = (
        f"def {method.__name__}({', '.join(declared)}):\n"
        "    if _hooks.active:\n"
        f"        return _announced({owner}, {{{named}}})\n"
        f"    if {' or '.join(tests)}:\n"
        f"        return _slow({given})\n"
        f"    return _method({given})\n"
    )
    code = compile(text, f"<fast path of {method.__qualname__}>", "exec")
    exec(code, names)  # noqa: S102 - the text has only identifiers of the method
    generated: Any = names[method.__name__]
    return functools.wraps(method)(generated)
