"""The work of `dovetail model-lib-generator`, after its options are read."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from dovetail.api import load_model
from dovetail.cli.output import current_output
from dovetail.errors import ConfigError, Problem
from dovetail.files import staged_folder, unwritable
from dovetail.ops import OpRegistry
from dovetail_tools._model_wheel import ModelWheel
from dovetail_tools._weights_file import next_to_weights

_WINDOWS = "windows"
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_VERSION = re.compile(r"[0-9]+(?:\.[0-9]+)*(?:(?:a|b|rc)[0-9]+)?(?:\.post[0-9]+)?(?:\.dev[0-9]+)?")


@dataclass(frozen=True, slots=True)
class LibraryRequest:
    """A model library to write.

    Attributes:
        model: The model.
        weights: The file of its weights; None for the one next to it.
        targets: Names of the targets.
        name: Name of the model.
        folder: Folder of the files.
        version: Version of the wheel.
        input_format: Name of the frontend that reads the model; None to find it.
    """

    model: Path
    weights: Path | None
    targets: tuple[str, ...]
    name: str
    folder: Path
    version: str
    input_format: str | None = None

    def check(self) -> None:
        """Raise if a name cannot be that of a file, or the version is invalid.

        Raises:
            ConfigError: Lists every fault.
        """
        problems = []
        if not _NAME.fullmatch(self.name):
            text = f"'{self.name}' cannot be the name of a library and a dist"
            problems.append(Problem(text, "--lib-name", "use letters, digits, _, - and ."))
        if not self.targets:
            problems.append(Problem("no target is given", "--lib-targets"))
        for target in self.targets:
            if not _NAME.fullmatch(target):
                problems.append(
                    Problem(f"'{target}' cannot be the name of a folder", "--lib-targets")
                )
        if not _VERSION.fullmatch(self.version):
            hint = "use numbers separated by dots, such as 1.0"
            problems.append(Problem(f"invalid version '{self.version}'", "--package-version", hint))
        if problems:
            raise ConfigError("invalid options", code="USAGE", problems=problems)

    @property
    def libraries(self) -> tuple[Path, ...]:
        """The libraries below the folder, one for each target."""
        return tuple(
            Path(target) / (f"{self.name}.dll" if _WINDOWS in target else f"lib{self.name}.so")
            for target in dict.fromkeys(self.targets)
        )


def generate(request: LibraryRequest, ops: OpRegistry) -> None:
    """Write the wheel and the libraries, all or none, and print a line about them.

    Args:
        request: The library.
        ops: The ops that the model may have.

    Raises:
        DovetailError: The options are invalid, the model cannot be loaded, or a file cannot be
            written.
    """
    request.check()
    wheel = ModelWheel(request.name, request.version)
    with (
        next_to_weights(request.model, request.weights) as source,
        staged_folder(request.folder) as staging,
    ):
        model = load_model(source, ops, input_format=request.input_format)
        content = staging.new / "model.dvt"
        staging.new.mkdir(exist_ok=True)
        model.save(content)
        try:
            with (staging.new / wheel.file_name).open("wb") as file:
                wheel.write(file, content)
            for library in request.libraries:
                (staging.new / library).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(content, staging.new / library)
        except OSError as error:
            raise unwritable(request.folder, error) from error
        staging.commit([Path(wheel.file_name), *request.libraries])
    _report(request, wheel)


def _report(request: LibraryRequest, wheel: ModelWheel) -> None:
    output = current_output()
    names = (Path(wheel.file_name), *request.libraries)
    files = [str(request.folder / name) for name in names]
    output.message(
        f"{request.model} -> {', '.join(files)}\n"
        f"after `pip install {files[0]}`, `--model {request.name}` finds the model"
    )
    if output.json:
        data = {"model": request.name, "wheel": files[0], "libraries": files[1:]}
        output.data(data, "")
