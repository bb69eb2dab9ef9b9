"""The package is typed, so that users' type checkers read its annotations."""

from importlib.resources import files


def test_package_is_typed() -> None:
    assert files("dovetail_qnn").joinpath("py.typed").is_file()
