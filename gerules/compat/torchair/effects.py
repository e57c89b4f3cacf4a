"""What the fields of a CompilerConfig come to: options of the compile, and what is done on the way."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from gerules.compat.torchair.converters import translations
from gerules.compat.torchair.dumps import GraphDump, ValueDump, summarize
from gerules.compat.torchair.error import ConfigError
from gerules.compat.torchair.replacement import apply_replacements
from gerules.dynamo import BackendOptions, Hooks
from gerules.errors import Source, table
from gerules.pipeline import CompiledModel, CompileOptions, read_fusion_switch, save_fusion_result
from gerules.pipeline.fusion_switch import FusionSwitch, parse_fusion_switch

_ALL_OFF: Final = '{"Switch": {"GraphFusion": {"ALL": "off"}, "UBFusion": {"ALL": "off"}}}'
_RESULT: Final = "fusion_result.json"


def backend_options(config: Any) -> BackendOptions:
    """Return the options of the backend that a CompilerConfig stands for.

    Raises:
        ConfigError: E10113 for fields that contradict each other.
        PipelineError: E2 for a switch file.
    """
    enable, disable = _switches(config.ge_config.optimization_switch)
    amp = config.amp.enable
    precisions = {
        name: value
        for name, value in (
            ("operator_selection.precision_mode", config.operator_selection.precision_mode),
            ("amp.enable", "mixed_float16" if amp else None),
            ("gerules.precision", config.gerules.precision),
        )
        if value is not None
    }
    if len(set(precisions.values())) > 1:
        raise ConfigError(table.CONFIG_CONTRADICTS, fields=" and ".join(precisions))
    compile_options = CompileOptions(
        device=config.gerules.device,
        precision=next(iter(precisions.values()), None),
        enable=enable,
        disable=disable,
        keep_dtype=(*_names(config.operator_selection.keep_dtype), *_names(config.amp.keep_dtype)),
        fusion_switch=_fusion_switch(config),
        folds=config.ge_config.oo_constant_folding is not False,
        n_streams=1 if config.ge_config.enable_single_stream else config.execution.stream_num,
        memory_limit_bytes=config.memory.limit_bytes,
    )
    return BackendOptions(
        compile_options,
        rules=_names(config.gerules.rules),
        fallback=config.gerules.fallback,
        cache_size=config.gerules.cache_size,
        freeze=config.experimental_config.frozen_parameter,
        verify_rtol=config.precision_check.rtol if config.precision_check.enable else None,
        hooks=_hooks(config),
    )


def _names(given: object) -> tuple[str, ...]:
    if given is None:
        return ()
    return (given,) if isinstance(given, str) else tuple(cast("Sequence[str]", given))


def _switches(text: str | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    enable: list[str] = []
    disable: list[str] = []
    for item in filter(None, (part.strip() for part in (text or "").split(";"))):
        name, _, state = item.partition(":")
        if state.strip() not in ("on", "off"):
            raise ConfigError(
                table.BAD_CONFIG_VALUE, path="config.ge_config.optimization_switch", value=repr(item),
                allowed="Name:on or Name:off",
            )  # fmt: skip
        (enable if state.strip() == "on" else disable).append(name.strip())
    return tuple(enable), tuple(disable)


def _fusion_switch(config: Any) -> FusionSwitch | None:
    file = config.fusion_config.fusion_switch_file
    is_plain = config.ge_config.oo_level == "O1" or config.optimization.level in ("O0", "O1")
    if not is_plain:
        return None if file is None else read_fusion_switch(file)
    if file is not None:
        raise ConfigError(
            table.CONFIG_CONTRADICTS, fields="fusion_config.fusion_switch_file and a level without fusions"
        )
    return parse_fusion_switch(Source("optimization level O1", _ALL_OFF))


def _hooks(config: Any) -> Hooks:
    original = GraphDump(config.debug.graph_dump.type, Path(config.debug.graph_dump.path))
    passes: list[Callable[[Any], object]] = []
    if config.post_grad_custom_pre_pass is not None:
        passes.append(config.post_grad_custom_pre_pass)
    if config.experimental_config.pattern_fusion_pass:
        passes.append(apply_replacements)
    if config.post_grad_custom_post_pass is not None:
        passes.append(config.post_grad_custom_post_pass)
    is_summarized = config.debug.fx_summary.type == "csv"

    def on_graph(graph: Any, number: int) -> None:
        original.write_original(graph, number)
        if is_summarized:
            summarize(graph, number)

    def on_compiled(model: CompiledModel, number: int) -> None:
        original.write_compiled(model, number)
        _keep_statistics(config.ge_config.export_compile_stat, model)

    around, run_model = _runs(config, is_summarized)
    return Hooks(
        passes=tuple(passes),
        on_graph=on_graph,
        on_compiled=on_compiled,
        around=around,
        run_model=run_model,
        translations=translations,
        zips_gears=config.inference_config.dynamic_gears_merge_policy == "zip",
    )


Around = Callable[[Any, Sequence[Any], int], Sequence[Any]]
RunModel = Callable[[CompiledModel, Mapping[str, Any], int], Mapping[str, Any]]


def _runs(config: Any, is_summarized: bool) -> tuple[Around | None, RunModel | None]:
    """What runs in the place of compiled models, and what watches them."""
    if config.debug.data_dump.type == "npy":
        dump = ValueDump(Path(config.debug.data_dump.path), accepts=config.debug.data_dump.filter)
        return dump.run_graph, None
    if config.dump_config.enable_dump:
        wanted = config.dump_config
        dump = ValueDump(
            Path(wanted.dump_path),
            mode=wanted.dump_mode,
            steps=wanted.dump_step,
            layers=wanted.dump_layer,
            is_statistic=wanted.dump_data == "stats",
        )
        if wanted.data_dump_stage == "original":
            return dump.run_graph, None
        return None, dump.run_model
    if config.debug.run_eagerly or (is_summarized and config.debug.fx_summary.skip_compile):
        return (lambda graph, args, _: graph(*args)), None
    return None, None


_AT_END: Final[list[CompiledModel]] = []


def _keep_statistics(when: str | None, model: CompiledModel) -> None:
    if when == "2":
        save_fusion_result(model, _RESULT)
    elif when == "1":
        if not _AT_END:
            atexit.register(lambda: save_fusion_result(_AT_END[-1], _RESULT))
        _AT_END[:] = [model]
