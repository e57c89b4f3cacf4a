"""TorchAir's face given the wrong thing: refused at once, with a code and what is allowed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from gerules.compat import torchair
from gerules.errors import GerulesError


def refused(call: Callable[[], object], code: str, *words: str) -> None:
    with pytest.raises(GerulesError) as caught:
        call()
    text = str(caught.value)
    assert caught.value.code == code, text
    assert all(word in text for word in words), text


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("execution.stream_num", 0, "from 1"),
        ("memory.limit_bytes", -5, "from 0"),
        ("precision_check.rtol", -1, "from 0"),
        ("precision_check.rtol", float("nan"), "from 0"),
        ("gerules.cache_size", 0, "from 1"),
        ("dump_config.dump_step", "a-b", "0|1|2-5"),
    ],
)
def test_values_out_of_range_are_told_the_range(path: str, value: object, words: str) -> None:
    section, _, name = path.partition(".")
    part = getattr(torchair.CompilerConfig(), section)
    refused(lambda: setattr(part, name, value), "E10111", words)


def test_values_in_range_are_taken() -> None:
    config = torchair.CompilerConfig()
    config.execution.stream_num = 1
    config.memory.limit_bytes = None
    config.precision_check.rtol = 0
    config.dump_config.dump_step = "0|3-999999999"


def test_a_longer_name_is_near_its_beginning() -> None:
    part = torchair.CompilerConfig().experimental_config
    refused(lambda: setattr(part, "frozen_param", True), "E10110", "did you mean frozen_parameter")


def test_a_configuration_of_another_kind_is_refused() -> None:
    refused(lambda: torchair.get_npu_backend(compiler_config=cast(Any, {"a": 1})), "E10111", "CompilerConfig")


@pytest.mark.parametrize("operator", [3, None, "aten.add"])
def test_a_converter_of_no_operator_is_refused_at_once(operator: object) -> None:
    refused(lambda: torchair.register_fx_node_ge_converter(operator), "E10116", "no operator")


def test_a_replacement_that_is_none_is_refused() -> None:
    def one(x: object) -> object:
        return x

    def two(x: object, y: object) -> object:
        return x, y

    register = cast(Any, torchair.register_replacement)
    refused(lambda: register(3, one, [1]), "E10116", "search_fn")
    refused(lambda: register(one, two, [1]), "E10116", "do not take the same")
    refused(lambda: register(one, one, []), "E10116", "example_inputs has 0")


class Matrix:
    def dim(self) -> int:
        return 2


@pytest.mark.parametrize("gears", [3, {0: 2}, {"0": [2, 4]}, {0: [2, 4.5]}, {0: "24"}])
def test_gears_of_another_form_are_refused(gears: Any) -> None:
    refused(lambda: torchair.inference.set_dim_gears(Matrix(), gears), "E10115")


def test_a_cache_that_is_not_there_is_told(tmp_path: Path) -> None:
    refused(lambda: torchair.inference.readable_cache(tmp_path / "nodir"), "E10111", "nodir")
