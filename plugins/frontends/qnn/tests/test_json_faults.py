"""Faults of `X_net.json` and `X.bin`: each is an error of the model, and all are listed."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from small_graphs import convolution

from dovetail.errors import ConfigError, FrontendError
from dovetail.ops.frontend import FrontendOptions
from dovetail_qnn import QnnCppOptions, QnnJsonExporter, QnnJsonFrontend

Data = dict[str, Any]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    path = tmp_path / "model" / "net_net.json"
    QnnJsonExporter().export(convolution(), path, QnnCppOptions())
    return path


def refused(path: Path) -> str:
    with pytest.raises(FrontendError) as caught:
        QnnJsonFrontend().read(path)
    assert str(path) in caught.value.where
    return str(caught.value)


def change(path: Path, edit: Callable[[Data], None]) -> None:
    data = json.loads(path.read_bytes())
    edit(data)
    path.write_text(json.dumps(data), "utf-8")


def tensor(name: str, **fields: Any) -> Callable[[Data], None]:
    return lambda data: data["graph"]["tensors"][name].update(fields)


def test_all_faults_are_listed_at_once(path: Path) -> None:
    def edit(data: Data) -> None:
        tensors, nodes = data["graph"]["tensors"], data["graph"]["nodes"]
        tensors["x"]["data_type"] = 1
        tensors["y"]["type"] = 99
        tensors["conv_weight"]["dims"] = [3, 3, 3, 4]
        tensors["conv_bias"]["quant_params"] = {"definition": 1, "encoding": 3}
        nodes["_conv"]["tensor_params"]["stride"]["_conv_stride"]["data"] = [1, 2, 3]
        nodes["_conv"]["scalar_params"]["group"] = {"306": -1}
        nodes["relu"]["input_names"] = ["nowhere"]

    change(path, edit)
    text = refused(path)
    for fault in (
        "tensor 'x': unknown number",
        "tensor 'y': unknown number",
        "'conv_weight': has 54 bytes of data, but SFIXED_POINT_8 (3, 3, 3, 4) takes 108",
        "tensor 'conv_bias': the form of the encoding BW_AXIS_SCALE_OFFSET",
        "param 'stride': expected 2 values, got 3 for Conv2d",
        "param 'group': '-1' is not a value of UINT_32",
        "Relu node 'relu': tensor 'nowhere' is not defined",
    ):
        assert fault.removesuffix(" for Conv2d") in text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not JSON"),
        ("[]", "no keys 'model.cpp' and 'graph'"),
        ('{"model.cpp": "", "graph": 3}', "no keys"),
        ('{"model.cpp": "", "graph": {"tensors": {}, "nodes": [NaN]}}', "NaN"),
        ('{"model.cpp": "", "graph": ' + "[" * 100_000, "not JSON"),
        ('{"model.cpp": 1' + "0" * 5000 + "}", "not JSON"),
        ('{"model.cpp": "", "graph": {"tensors": 3}}', "$.graph.tensors"),
        ('{"model.cpp": "", "graph": {"tensors": {}, "nodes": {}}, "dovetail": 1}', "$.dovetail"),
        (
            '{"model.cpp": "", "graph": {"tensors": {"a": {"type": 4, "data_type": 50, '
            '"dims": [4294967295, 4294967295, 4294967295]}}, "nodes": {}}}',
            "impossible shape",
        ),
    ],
)
def test_text_that_is_no_model(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text, "utf-8")
    assert reason in refused(path)


def test_duplicate_names(path: Path) -> None:
    text = path.read_text("utf-8")
    path.write_text(text.replace('"_conv_out":', '"y":'), "utf-8")
    assert "duplicate name 'y'" in refused(path)


def test_missing_weights(path: Path) -> None:
    path.with_name("net.bin").unlink()
    text = refused(path)
    assert "no file with weights for 2 static tensors: conv_weight, conv_bias" in text
    assert "MODEL.bin" in text


def test_weights_are_found_by_the_files_name_after_a_move(path: Path, tmp_path: Path) -> None:
    change(path, lambda data: data.update({"model.bin": "/elsewhere/other.bin"}))
    assert QnnJsonFrontend().read(path)[0].tensor("conv.weight").values().shape == (3, 3, 3, 2)
    path.with_name("net.bin").rename(path.with_name("other.bin"))
    assert QnnJsonFrontend().read(path)[0].tensor("conv.weight").values().shape == (3, 3, 3, 2)


def test_weights_in_another_folder_are_refused(path: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    path.with_name("net.bin").rename(elsewhere / "net.bin")
    path.with_name("net.bin").symlink_to(elsewhere / "net.bin")
    with pytest.raises(FrontendError, match="outside the folder"):
        QnnJsonFrontend().read(path)


def entry(name: str, data: bytes = b"", **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in fields.items():
        setattr(info, key, value)
    return info, data


def archive(path: Path, *entries: tuple[tarfile.TarInfo, bytes], form: int = 0) -> None:
    with tarfile.open(path, "w", format=form) as tar:
        for info, data in entries:
            tar.addfile(info, io.BytesIO(data))


WEIGHT, BIAS = entry("conv_weight.raw", bytes(54)), entry("conv_bias.raw", bytes(8))


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (entry("../../conv_weight.raw", bytes(54)), "no data in net.bin for 1 static tensors"),
        (entry("conv_weight.raw", type=tarfile.SYMTYPE, linkname="/etc/passwd"), "is a link"),
        (entry("conv_weight.raw", type=tarfile.CHRTYPE), "a device"),
        (entry("conv_weight.txt", bytes(54)), "not named TENSOR.raw"),
        (entry("conv_bias.raw", bytes(8)), "duplicate entry 'conv_bias.raw'"),
        (entry("conv_weight.raw", bytes(53)), "has 53 bytes of data"),
    ],
)
def test_hostile_entries(path: Path, bad: tuple[tarfile.TarInfo, bytes], reason: str) -> None:
    archive(path.with_name("net.bin"), bad, BIAS, form=tarfile.USTAR_FORMAT)
    assert reason in refused(path)


def test_damaged_archives(path: Path) -> None:
    weights = path.with_name("net.bin")
    data = weights.read_bytes()
    weights.write_bytes(b"\x01" + data[1:])
    assert "no header of an entry at byte 0" in refused(path)
    weights.write_bytes(data[:1100])
    assert "ends within an entry's header" in refused(path)
    weights.write_bytes(data[:600])
    assert "ends within an entry's padding" in refused(path)
    weights.write_bytes(data[:540])
    assert "has 54 bytes, which exceed the file's 540" in refused(path)


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_archives_of_other_programs(path: Path, form: int) -> None:
    name = "w" * 80 + "/" + "w" * 90 if form == tarfile.USTAR_FORMAT else "w" * 180
    text = path.read_text("utf-8").replace('"conv_weight"', f'"{name}"')
    path.write_text(text, "utf-8")
    weight = entry(f"{name}.raw", bytes(range(54)))
    folder = entry("a/", type=tarfile.DIRTYPE)
    archive(path.with_name("net.bin"), folder, weight, BIAS, form=form)
    (graph,) = QnnJsonFrontend().read(path)
    assert graph.tensor("conv.weight").values().reshape(-1).tolist() == list(range(54))


def test_long_names_are_written_for_other_programs(path: Path, tmp_path: Path) -> None:
    graph = convolution()
    graph.rename({graph.tensor("conv.weight"): "w" * 3000}, {})
    target = tmp_path / "long_net.json"
    QnnJsonExporter().export(graph, target, QnnCppOptions())
    with tarfile.open(tmp_path / "long.bin") as tar:
        assert tar.getnames() == ["w" * 3000 + ".raw", "conv_bias.raw"]
    found = QnnJsonFrontend().read(target)[0].tensor("w" * 3000)
    assert found.data is not None
    assert found.data.hash == convolution().tensor("conv.weight").data.hash  # type: ignore[union-attr]


def test_a_damaged_extension_is_an_error(path: Path) -> None:
    change(path, lambda data: data["dovetail"].update(version=2))
    assert "$.dovetail.version" in refused(path)


def test_options_that_do_not_fit(path: Path) -> None:
    options = FrontendOptions(
        input_dims={"x": (1, 5, 4, 3), "z": (1,)},
        batch=2,
        out_names=("relv", "x"),
    )
    with pytest.raises(ConfigError) as caught:
        QnnJsonFrontend().read(path, options)
    text = str(caught.value)
    assert len(caught.value.problems) == 4
    assert "--input-dim x: the model has the shape (1, 4, 4, 3)" in text
    assert "no node writes tensor 'x'" in text


def test_the_graph_is_cut_at_named_tensors(path: Path) -> None:
    (graph,) = QnnJsonFrontend().read(path, FrontendOptions(out_names=("/conv/out",), batch=1))
    assert [t.name for t in graph.outputs] == ["/conv/out"]
    assert [node.name for node in graph.nodes] == ["/conv"]


def test_other_files_are_not_recognised(path: Path, tmp_path: Path) -> None:
    frontend = QnnJsonFrontend()
    assert frontend.recognises(path)
    other = tmp_path / "other"
    other.write_bytes(b'{"model": 1}')
    assert not frontend.recognises(other)
    assert not frontend.recognises(tmp_path / "missing")
    other.write_text(json.dumps({"graph": {"n": "x" * 9000}, "model.cpp": "N/A"}), "utf-8")
    assert frontend.recognises(other)  # some writers sort the keys


def test_a_dry_run_names_the_operators(path: Path) -> None:
    change(path, lambda data: data["graph"]["nodes"]["relu"].update(package="my.pkg"))
    found = QnnJsonFrontend().dry_run(path)
    uses = [(use.domain, use.op_type, use.count, use.supported) for use in found.operators]
    assert uses == [("my.pkg", "Relu", 1, False), ("qti.aisw", "Conv2d", 1, True)]
    assert len(found.problems) == 1


def test_every_error_is_ours(path: Path) -> None:
    """Any value in place of any other is read or rejected, whatever it is."""
    strange = [None, -1, 2**70, 1.5, "", "x", [], [[]], {}, {"a": 1}, True]
    data = json.loads(path.read_bytes())
    spots: list[tuple[Any, Any]] = []
    waiting = [data]
    while waiting:
        at = waiting.pop()
        keys = list(at) if isinstance(at, dict) else range(len(at))
        spots += [(at, key) for key in keys]
        waiting += [at[key] for key in keys if isinstance(at[key], dict | list)]
    assert len(spots) > 150
    for number, (at, key) in enumerate(spots):
        kept = at[key]
        at[key] = strange[number % len(strange)]
        path.write_text(json.dumps(data), "utf-8")
        with suppress(FrontendError):
            QnnJsonFrontend().read(path)
        at[key] = kept
