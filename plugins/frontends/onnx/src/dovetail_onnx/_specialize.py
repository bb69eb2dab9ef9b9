"""A model converted for the values of those inputs that decide shapes or attributes.

Which inputs these are is found by trying: a refusal names the inputs that must be known.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping
from pathlib import Path

from onnx import ModelProto, TensorProto, numpy_helper

from dovetail.api import Model, Session, convert
from dovetail.ir import Array
from dovetail_onnx._refusals import InputsNeededError


class Specializer:
    """Sessions of one model, one for all inputs or one for each set of decisive values.

    Args:
        proto: The model; external data cannot be found.
        backend: Name of the backend that the sessions run on.

    Attributes:
        decisive: Names of the inputs whose values were needed so far.
    """

    def __init__(self, proto: ModelProto, backend: str) -> None:
        self._proto = proto
        self._backend = backend
        self._sessions: dict[str, Session] = {}
        self.decisive: tuple[str, ...] = ()

    def session(self, feeds: Mapping[str, Array]) -> Session:
        """Gives the session for these inputs; converts where none is at hand.

        Args:
            feeds: All inputs by name, in the model's own types.

        Raises:
            DovetailError: The model cannot be converted, whatever is known, or does not run.
        """
        while True:
            key = _key({name: feeds[name] for name in self.decisive})
            if key in self._sessions:
                return self._sessions[key]
            try:
                model = self._convert({name: feeds[name] for name in self.decisive})
            except InputsNeededError as error:
                if not set(error.inputs) <= feeds.keys():
                    raise
                self.decisive += error.inputs
            else:
                self._sessions[key] = Session(model, backend=self._backend)

    def proto(self, known: Mapping[str, Array]) -> ModelProto:
        """Gives the model with some inputs as constants of these values."""
        return with_values(self._proto, known)

    def _convert(self, known: Mapping[str, Array]) -> Model:
        # a frontend reads files, as the user's models are
        with tempfile.TemporaryDirectory(prefix="dovetail-") as folder:
            path = Path(folder) / "model.onnx"
            path.write_bytes(self.proto(known).SerializeToString())
            return convert(path)

    def close(self) -> None:
        """Frees all sessions."""
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()


def with_values(model: ModelProto, known: Mapping[str, Array]) -> ModelProto:
    """Gives a model in which some inputs are constants of these values."""
    if not known:
        return model
    made = ModelProto()
    made.CopyFrom(model)
    kept = [info for info in made.graph.input if info.name not in known]
    del made.graph.input[:]
    made.graph.input.extend(kept)
    for name, values in known.items():
        tensor: TensorProto = numpy_helper.from_array(values, name)
        made.graph.initializer.append(tensor)
    return made


def _key(known: Mapping[str, Array]) -> str:
    digest = hashlib.sha256()
    for name, values in known.items():
        digest.update(f"{name} {values.dtype} {values.shape} ".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()
