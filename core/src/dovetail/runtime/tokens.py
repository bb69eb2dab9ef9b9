"""Tokens of registered memory: each is released when no execution uses it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import msgspec
import numpy as np

from dovetail.errors import BackendError
from dovetail.runtime.contract import Binding, Token
from dovetail.runtime.plugin_errors import log_errors


class _Registered(msgspec.Struct):
    token: Token
    users: int = 0  # executions
    is_ending: bool = False  # deregistered; released with the last user


class Tokens:
    """The registered tokens of a context. Arrays are the application's, and pass through.

    Attributes:
        registered: The tokens by identity; empty if executions need not `hold` any.
    """

    def __init__(self) -> None:
        self.registered: dict[int, _Registered] = {}
        self._lock = threading.Lock()

    def add(self, binding: Binding) -> None:
        """Register the token of new memory."""
        if not isinstance(binding, np.ndarray):
            with self._lock:
                self.registered[id(binding)] = _Registered(binding)

    def hold(
        self, inputs: Mapping[str, Binding], outputs: Mapping[str, Binding] | None
    ) -> Sequence[Token]:
        """Return the tokens that an execution uses; `let_go` must follow.

        Raises:
            BackendError: One has been deregistered.
        """
        bindings = chain(inputs.values(), (outputs or {}).values())
        tokens = [each for each in bindings if not isinstance(each, np.ndarray)]
        with self._lock:
            found = [self.registered.get(id(token)) for token in tokens]
            entries = [entry for entry in found if entry is not None and not entry.is_ending]
            if len(entries) != len(tokens):
                raise BackendError("the memory was deregistered", code="MEM_ERROR_INVALID_HANDLE")
            for entry in entries:
                entry.users += 1
        return tokens

    def let_go(self, tokens: Iterable[Token]) -> None:
        """End the use of tokens."""
        for token in tokens:
            with self._lock:
                entry = self.registered[id(token)]
                entry.users -= 1
            self._release_unused(entry)

    def release(self, binding: Binding) -> None:
        """Release a token now, or at the end of the last execution that uses it."""
        if (entry := self.registered.get(id(binding))) is not None:
            entry.is_ending = True
            self._release_unused(entry)

    def close(self) -> None:
        """Release all tokens, while nothing runs."""
        for entry in tuple(self.registered.values()):
            self.release(entry.token)

    def _release_unused(self, entry: _Registered) -> None:
        with self._lock:
            if entry.users or not entry.is_ending:
                return
            if self.registered.pop(id(entry.token), None) is None:  # another thread was quicker
                return
        with log_errors("releasing registered memory"):
            entry.token.release()
