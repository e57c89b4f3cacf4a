"""TorchAir's configuration where torch is not installed: it can be written, and its faults are told."""

from __future__ import annotations

import sys

import pytest

from gerules.compat import torchair
from gerules.errors import GerulesError


def test_a_configuration_needs_no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    config = torchair.CompilerConfig()
    config.ge_config.oo_level = "O1"
    assert config.changed() == {"ge_config.oo_level": "O1"}
    assert config.as_backend_options().compile.fusion_switch is not None
    with pytest.raises(ValueError, match="did you mean graph_dump"):
        config.debug.graph_dumb.type = "py"


def test_the_backend_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    backend = torchair.get_npu_backend(compiler_config=torchair.CompilerConfig())
    with pytest.raises(GerulesError) as caught:
        backend(None, [])
    assert caught.value.code == "E10009"


def test_a_switch_that_says_neither_on_nor_off_is_told() -> None:
    config = torchair.CompilerConfig()
    config.ge_config.optimization_switch = "PassA:maybe"
    with pytest.raises(ValueError, match="Name:on or Name:off"):
        torchair.get_compiler(config)


def test_a_configuration_can_be_copied() -> None:
    import copy

    one = torchair.CompilerConfig()
    two = copy.deepcopy(one)
    two.debug.run_eagerly = True
    assert (one.debug.run_eagerly, two.debug.run_eagerly) == (False, True)
