"""Options of a compile: what comes from outside, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gerules.dsl.values import Value
from gerules.ir import Dim
from gerules.pipeline.fusion_switch import FusionSwitch


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileOptions:
    """What a compile is asked for.

    Attributes:
        device: A device of the rule book.
        precision: `fp32`, `fp16`, `mixed_float16`, ...; None leaves it to the profile or the device.
        profile: A profile of the rule book.
        enable: Rules, rule sets or aliases to switch on.
        disable: And off.
        params: Values for `param`s of the rules.
        pipeline: The named pipeline of phases.
        input_shapes: Shape by input name, for inputs whose shape the model leaves open.
        dims: Size by name of a symbolic dimension.
        dynamic_batch_size: Gears, as ATC has them: `1,2,4,8` are sizes of the first dimension of inputs.
        dynamic_image_size: `224,224;448,448` are heights and widths.
        dynamic_dims: `1,128;8,64` are sizes of all open dimensions, input by input.
        compile_hybrid_mode: Whether the model has besides its gears a plan of any shape.
        keep_dtype: Nodes that keep their element type: names of the model, or `OpType::Conv`.
        fusion_switch: What a fusion switch file says of passes.
        folds: Whether constants are folded.
        n_streams: Most streams; None leaves it to the device.
        memory_limit_bytes: Largest arena; None leaves it to the device.
        stop_after: Name of the last stage to run.
    """

    device: str = "host"
    precision: str | None = None
    profile: str | None = None
    enable: Sequence[str] = ()
    disable: Sequence[str] = ()
    params: Mapping[str, Value] = field(default_factory=dict[str, Value])
    pipeline: str = "default"
    input_shapes: Mapping[str, Sequence[Dim]] | None = None
    dims: Mapping[str, int] | None = None
    dynamic_batch_size: str | None = None
    dynamic_image_size: str | None = None
    dynamic_dims: str | None = None
    compile_hybrid_mode: bool = False
    keep_dtype: Sequence[str] = ()
    fusion_switch: FusionSwitch | None = None
    folds: bool = True
    n_streams: int | None = None
    memory_limit_bytes: int | None = None
    stop_after: str | None = None
