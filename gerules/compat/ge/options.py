"""Options of the Graph Engine: those that a compile here understands, and those that change nothing here."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Final, cast

from gerules.compat.ge.error import GeError
from gerules.compat.ge.graph.conversion import shown
from gerules.errors import Faults, GerulesError, table
from gerules.ir import Dim
from gerules.passes.bind import parse_shapes

Options = Mapping[str, object]

_DEVICES: Final = (
    ("ascend310p", "ascend310p"), ("ascend310b", ""), ("ascend310", "ascend310"),
    ("ascend910b", "ascend910b"), ("ascend910_93", "ascend910b"), ("ascend910", "ascend910a"),
    ("host", "host"),
)  # fmt: skip
"""Devices by how the name of a processor begins, the longest first.

Ascend910B1 and later are one generation.
"""

_PRECISIONS: Final[Mapping[str, str]] = {
    "force_fp16": "fp16", "fp16": "fp16", "allow_fp32_to_fp16": "mixed_float16", "force_fp32": "fp32",
    "must_keep_origin_dtype": "fp32", "origin": "fp32", "allow_mix_precision": "mixed_float16",
    "allow_mix_precision_fp16": "mixed_float16", "mixed_float16": "mixed_float16",
    "cube_fp16in_fp32out": "mixed_float16",
}  # fmt: skip
"""Precisions of gerules by the values of `precision_mode` and `precision_mode_v2`."""

_SOC: Final = "ge.socVersion"
_FUSION_SWITCH: Final = "ge.fusionSwitchFile"
_SHAPES: Final = "ge.inputShape"
_PRECISION: Final = ("ge.exec.precision_mode", "ge.exec.precision_mode_v2")
_SINGLE_STREAM: Final = "ge.enableSingleStream"
_GEARS: Final[Mapping[str, str]] = {
    "dynamic_batch_size": "ge.dynamicBatchSize",
    "dynamic_image_size": "ge.dynamicImageSize",
    "dynamic_dims": "ge.dynamicDims",
}

SHORT: Final[Mapping[str, str]] = {
    **_GEARS,
    "soc_version": _SOC, "fusion_switch_file": _FUSION_SWITCH, "input_shape": _SHAPES,
    "precision_mode": _PRECISION[0], "precision_mode_v2": _PRECISION[1],
    "enable_single_stream": _SINGLE_STREAM,
}  # fmt: skip
"""The names of ATC for the same options."""

WITHOUT_EFFECT: Final = frozenset(
    [
        "input_format", "log", "ge.exec.deviceId", "ge.dynamicNodeType", "ge.graphRunMode",
        "ge.deterministic", "ge.jit_compile",
        "ge.exec.staticMemoryPolicy", "ge.opSelectImplmode", "ge.exec.atomicCleanPolicy", "ge.bufferOptimize",
        "ge.aicoreNum", "ge.op_compiler_cache_mode", "ge.op_compiler_cache_dir", "ge.exportCompileStat",
        "ge.exec.rankId", "ge.topoSortingMode", "ge.debugDir", "ge.opDebugLevel",
        "ge.exec.allTensorNotEmpty", "ge.exec.outputReuseMemIndexes", "ge.exec.enableEngineParallel",
        "ge.exec.static_model_ops_lower_limit", "ge.is_weight_clip",
    ]
)  # fmt: skip
"""Options that say how a device compiles or runs; the plan that is made here is the same with each value."""


@dataclass(slots=True)
class InitializeOptions:
    """The options of a process, by name; None leaves one to its default.

    Attributes:
        soc_version: `Ascend310P3`, `Ascend910B1`, ..., or `host` for this CPU.
        precision_mode: `force_fp16`, `allow_fp32_to_fp16`, `must_keep_origin_dtype`, ...
        fusion_switch_file: Which passes are on, in either form of the Graph Engine.
        enable_single_stream: "true" for one stream.
        more: Others, by their key.
    """

    soc_version: str | None = None
    precision_mode: str | None = None
    precision_mode_v2: str | None = None
    fusion_switch_file: str | None = None
    enable_single_stream: str | bool | None = None
    more: Mapping[str, object] | None = None

    def as_options(self) -> dict[str, object]:
        """Return the options by key."""
        given = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "more"}
        return {
            **{SHORT[name]: value for name, value in given.items() if value is not None},
            **(self.more or {}),
        }


@dataclass(frozen=True, slots=True)
class CompileChoice:
    """What options ask of a compile."""

    device: str = "host"
    precision: str | None = None
    fusion_switch_file: str | None = None
    input_shapes: Mapping[str, Sequence[Dim]] | None = None
    dynamic_batch_size: str | None = None
    dynamic_image_size: str | None = None
    dynamic_dims: str | None = None
    n_streams: int | None = None


def merged(*levels: Options | InitializeOptions | None) -> dict[str, object]:
    """Return options of all levels by key; later levels win. Raises GeError E10003 for what is none."""
    found: dict[str, object] = {}
    for level in levels:
        plain = level.as_options() if isinstance(level, InitializeOptions) else (level or {})
        if not isinstance(cast(object, plain), Mapping):
            raise GeError(
                table.BAD_OPTION, option="options", value=shown(plain), reason="options go by their names",
                remedy='pass a dict, such as {"ge.socVersion": "Ascend910B1"}',
            )  # fmt: skip
        found.update({SHORT.get(key, key): value for key, value in plain.items()})
    return found


def read_options(options: Options) -> CompileChoice:
    """Return what options ask for.

    Raises:
        GeError: E10003 for every key that is unknown, and every value that an option cannot have.
    """
    faults = Faults()
    for key in options:
        if key not in KNOWN and key not in WITHOUT_EFFECT:
            near = difflib.get_close_matches(key, [*KNOWN, *WITHOUT_EFFECT], n=3)
            faults.add(
                table.BAD_OPTION, option=key, value=options[key], reason="there is no such option here",
                remedy=f"did you mean {', '.join(near)}?" if near else "remove it",
            )  # fmt: skip
    choice = CompileChoice(
        device=_device(options.get(_SOC), faults),
        precision=_precision(options, faults),
        fusion_switch_file=_text(options, _FUSION_SWITCH),
        input_shapes=_shapes(options.get(_SHAPES), faults),
        dynamic_batch_size=_text(options, _GEARS["dynamic_batch_size"]),
        dynamic_image_size=_text(options, _GEARS["dynamic_image_size"]),
        dynamic_dims=_text(options, _GEARS["dynamic_dims"]),
        n_streams=1 if str(options.get(_SINGLE_STREAM, "")).lower() in ("1", "true") else None,
    )
    faults.raise_if_any(GeError)
    return choice


KNOWN: Final = (_SOC, _FUSION_SWITCH, _SHAPES, *_PRECISION, *_GEARS.values(), _SINGLE_STREAM)
"""The options that a compile here understands."""
"""The options that a compile here understands."""


def _device(value: object, faults: Faults) -> str:
    if value is None:
        return "host"
    name = str(value).lower()
    found = next((device for start, device in _DEVICES if name.startswith(start)), None)
    if not found:
        faults.add(
            table.BAD_OPTION, option=_SOC, value=value, reason="no device of that name is described",
            remedy="use Ascend310, Ascend310P3, Ascend910A, Ascend910B1 or host",
        )  # fmt: skip
    return found or "host"


def _precision(options: Options, faults: Faults) -> str | None:
    given = {key: str(options[key]) for key in _PRECISION if options.get(key) is not None}
    if len(given) > 1:
        faults.add(
            table.BAD_OPTION, option=_PRECISION[0], value=options[_PRECISION[0]],
            reason=f"{_PRECISION[1]} is given too", remedy="give one of the two",
        )  # fmt: skip
    found: str | None = None
    for key, value in given.items():
        found = _PRECISIONS.get(value)
        if found is None:
            faults.add(
                table.BAD_OPTION, option=key, value=value, reason="there is no such mode",
                remedy=f"use one of {', '.join(_PRECISIONS)}",
            )  # fmt: skip
    return found


def _text(options: Options, key: str) -> str | None:
    value = options.get(key)
    return None if value is None else str(value)


def _shapes(value: object, faults: Faults) -> Mapping[str, Sequence[Dim]] | None:
    if value is None:
        return None
    try:
        return parse_shapes(str(value))
    except GerulesError as error:
        faults.extend(error.diagnostics)
        return None
