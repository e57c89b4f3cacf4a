"""Toolchains: precision, profile and device settle what a compile does."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from gerules.errors import GerulesError
from gerules.passes.precision import MODES
from gerules.pipeline import make_toolchain, shipped_rules

BOOK = shipped_rules()


@pytest.mark.parametrize("mode", sorted(MODES))
def test_every_mode_needs_no_profile_of_its_own(mode: str) -> None:
    assert make_toolchain(BOOK, {"": 17}, precision=mode).precision == MODES[mode]


@pytest.mark.parametrize(
    ("device", "want"), [("host", "fp32"), ("ascend910b", "fp16"), ("ascend310", "fp16")]
)
def test_the_device_has_a_precision_of_its_own(device: str, want: str) -> None:
    assert make_toolchain(BOOK, {"": 17}, device=device).precision == want


def test_the_caller_outweighs_the_profile() -> None:
    tools = make_toolchain(BOOK, {"": 17}, device="ascend910b", profile="blocks", precision="fp16")
    assert tools.precision == "fp16"
    assert any(rule.name.name == "bottleneck" for rule in tools.selection.rules)


@pytest.mark.parametrize(
    ("options", "code", "note"),
    [
        ({"precision": "fp61"}, "E50014", "did you mean fp16?"),
        ({"device": "ascend910c"}, "E50010", "did you mean ascend910b?"),
        ({"profile": "block"}, "E40120", "did you mean blocks?"),
        ({"disable": ["conv_bm"]}, "E40120", "did you mean conv_bn?"),
        ({"params": {"MAX_CHAINS": 3}}, "E40120", "did you mean MAX_CHAIN?"),
    ],
)
def test_unknown_names_come_with_the_nearest(options: dict[str, object], code: str, note: str) -> None:
    with pytest.raises(GerulesError, match=code) as caught:
        make_toolchain(BOOK, {"": 17}, **options)  # pyright: ignore[reportArgumentType]
    assert note in str(caught.value)


def test_rules_are_made_ready_once_for_the_same_options() -> None:
    one, two = (make_toolchain(BOOK, {"": 17}, device="host") for _ in range(2))
    assert one.phases is two.phases and one.schemas is two.schemas
    assert one.infer is not two.infer
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(make_toolchain, BOOK, {"": 17}, device="host").result().phases is not one.phases


@pytest.mark.parametrize(
    "options",
    [
        {"device": "ascend310p"},
        {"precision": "fp16"},
        {"profile": "blocks"},
        {"enable": ["bottleneck"]},
        {"disable": ["conv_bn"]},
        {"params": {"MAX_CHAIN": 3}},
        {"keep_dtype": ["conv"]},
        {"onnx_only": True},
    ],
)
def test_every_option_counts(options: dict[str, object]) -> None:
    plain = make_toolchain(BOOK, {"": 17}, device="ascend910b")
    other = make_toolchain(BOOK, {"": 17}, **{"device": "ascend910b"} | options)  # pyright: ignore[reportArgumentType]
    assert other.phases is not plain.phases
    assert make_toolchain(BOOK, {"": 18}, device="ascend910b").phases is not plain.phases
    assert make_toolchain(BOOK, {"": 17}, device="ascend910b").phases is plain.phases
