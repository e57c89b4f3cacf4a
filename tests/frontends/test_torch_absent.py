"""Models of torch where torch is not installed, and archives that are none of its files."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

import gerules
from gerules.errors import GerulesError


def archive(path: Path, *names: str) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for name in names:
            file.writestr(f"net/{name}", b"{}")
    return path


def fault_of(path: Path) -> GerulesError:
    with pytest.raises(GerulesError) as caught:
        gerules.load(path)
    return caught.value


@pytest.mark.parametrize(
    "names",
    [
        ("constants.pkl", "data.pkl", "code/__torch__.py"),
        ("archive_format", "models/model.json", "data/weights/model_weights_config.json"),
    ],
    ids=["script", "program"],
)
def test_without_torch_its_files_say_what_to_install(
    names: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    fault = fault_of(archive(tmp_path / "net.pt", *names))
    assert fault.code == "E10009"
    assert 'pip install "gerules[torch]"' in str(fault)


def test_archives_that_are_not_torchs_are_told_apart_without_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert "pickled" in str(fault_of(archive(tmp_path / "weights.pt", "data.pkl", "version")))
    assert "neither" in str(fault_of(archive(tmp_path / "other.zip", "readme")))
    broken = tmp_path / "broken.pt2"
    broken.write_bytes(archive(tmp_path / "whole.pt2", "archive_format", "models/m.json").read_bytes()[:60])
    assert fault_of(broken).code == "E10084"
    assert (
        fault_of(archive(tmp_path / "net.pt", "constants.pkl", "code/a.py", "models/m.json")).code == "E10009"
    )
