"""Every field of a CompilerConfig: its default, what it may be, and what follows from it here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["flag", "number", "decimal", "text", "path", "folder", "function", "names", "steps"]

FLAGS: Final = (True, False)


@dataclass(frozen=True, slots=True)
class Field:
    """One leaf of the configuration.

    Attributes:
        path: Names from the root, with dots.
        default: Its value unless it is set.
        allowed: The values it may have, or what kind they are.
        effect: What a value does.
        refused: Why no value but the default is taken; empty where all are.
        least: The smallest number; None where any will do.
    """

    path: str
    default: object
    allowed: tuple[object, ...] | Kind
    effect: str = ""
    refused: str = ""
    least: int | None = None


_STEPS: Final = re.compile(r"[0-9]{1,9}(?:-[0-9]{1,9})?(?:\|[0-9]{1,9}(?:-[0-9]{1,9})?)*")


def are_steps(text: str) -> bool:
    """Whether a text names runs: numbers and ranges of them, with bars between."""
    return _STEPS.fullmatch(text) is not None


_NO_DEVICE = "there is no device whose graphs could be captured"
_NO_TUNING = "tuning measures kernels on a device"
_NO_AIR = "this follows from calling dynamo_export"
_ONE_PROCESS = "graphs run in one process"


def _capture(name: str, default: object) -> Field:
    return Field(f"debug.aclgraph.{name}", default, FLAGS if isinstance(default, bool) else "number",
                 refused=_NO_DEVICE)  # fmt: skip


def _experimental(name: str, default: object, refused: str) -> Field:
    allowed = FLAGS if isinstance(default, bool) else "number"
    return Field(f"experimental_config.{name}", default, allowed, refused=refused)


FIELDS: Final = (
    Field("mode", "max-autotune", ("max-autotune", "reduce-overhead", "npugraph_ex"), refused=_NO_DEVICE),
    Field("post_grad_custom_pre_pass", None, "function", "changes the graph of aten operators first"),
    Field("post_grad_custom_post_pass", None, "function", "changes it last, before it is compiled"),
    # debug
    Field("debug.graph_dump.type", None, (None, "txt", "pbtxt", "py", "png"),
          "writes each graph as torch gave it, and as it was compiled"),
    Field("debug.graph_dump.path", ".", "folder", "where to"),
    Field("debug.fx_summary.type", None, (None, "csv"), "counts operators and their inputs and outputs"),
    Field("debug.fx_summary.skip_compile", True, FLAGS, "whether torch runs graphs that are summarized"),
    Field("debug.data_dump.type", None, (None, "npy"), "torch runs the graph; every value is written"),
    Field("debug.data_dump.filter", None, "function", "writes a node only if this is true of it"),
    Field("debug.data_dump.path", ".", "folder", "where to"),
    Field("debug.run_eagerly", False, FLAGS, "torch runs the graphs"),
    Field("debug.deadlock_check", False, FLAGS, refused="nothing here waits for a device"),
    *(_capture(name, default) for name, default in (
        ("disable_reinplace_inplaceable_ops_pass", False),
        ("disable_reinplace_input_mutated_ops_pass", False),
        ("disable_mempool_reuse_in_same_fx", False), ("enable_output_clone", False),
        ("static_capture_size_limit", 64), ("clone_input", True), ("remove_cat_ops", True))),
    # export: TorchAir's own dynamo_export sets them
    Field("export.export_mode", False, FLAGS, refused=_NO_AIR),
    Field("export.export_path_dir", "./", "text", refused=_NO_AIR),
    Field("export.export_name", None, "text", refused=_NO_AIR),
    Field("export.weight_name", None, "text", refused=_NO_AIR),
    Field("export.inputs_name", None, "text", refused=_NO_AIR),
    Field("export.experimental.enable_record_nn_module_stack", False, FLAGS,
          refused="nodes name the lines they come from in any case"),
    Field("export.experimental.auto_atc_config_generated", False, FLAGS, refused=_ONE_PROCESS),
    Field("export.experimental.enable_lite_export", False, FLAGS, refused="offline models have one form"),
    # dump_config
    Field("dump_config.enable_dump", False, FLAGS, "writes the values of each run"),
    Field("dump_config.dump_path", "./", "folder", "where to"),
    Field("dump_config.dump_mode", "all", ("all", "input", "output"), "which values of a node"),
    Field("dump_config.quant_dumpable", False, FLAGS, refused="values are written as they are"),
    Field("dump_config.dump_step", None, "steps", "runs that are written, such as 0|1|2-5"),
    Field("dump_config.dump_layer", None, "text", "nodes that are written, with blanks between"),
    Field("dump_config.dump_data", "tensor", ("tensor", "stats"), "elements, or their statistics"),
    Field("dump_config.dump_config_path", None, "text", refused="the fields beside it say the same"),
    Field("dump_config.data_dump_stage", "optimized", ("optimized", "original"),
          "values of the compiled graph, or of torch's"),
    # fusion_config, ge_config
    Field("fusion_config.fusion_switch_file", None, "path", "switches fusions as ATC does"),
    Field("ge_config.enable_single_stream", False, FLAGS, "plans one stream"),
    Field("ge_config.oo_level", "O3", ("O1", "O3"), "O1: no fusions; shapes, constants and dead nodes only"),
    Field("ge_config.oo_constant_folding", None, (None, True, False), "whether constants are folded"),
    Field("ge_config.oo_dead_code_elimination", None, (None, True),
          "True; nodes that nobody reads are never kept"),
    Field("ge_config.export_compile_stat", None, (None, "0", "1", "2"),
          "fusion_result.json: 0 never, 1 when Python ends, 2 after each compile; unset is 0"),
    Field("ge_config.optimization_switch", None, "text", "PassA:on;PassB:off, over the switch file"),
    Field("ge_config.aicore_num", None, "text", refused="cores are those of the device's description"),
    # experimental_config
    Field("experimental_config.frozen_parameter", False, FLAGS, "parameters are constants"),
    Field("experimental_config.keep_inference_input_mutations", True, FLAGS,
          "either way what a graph mutates reaches the caller"),
    Field("experimental_config.pattern_fusion_pass", True, FLAGS, "whether register_replacement is obeyed"),
    Field("experimental_config.jit_compile", "auto", ("auto",), "nothing to choose"),
    Field("experimental_config.topology_sorting_strategy", "DFS", ("DFS", "BFS", "RDFS", "StableRDFS"),
          refused="nodes are ordered for the least memory"),
    Field("experimental_config.static_model_ops_lower_limit", None, "number",
          refused="each set of shapes is compiled by itself, so no graph is in part dynamic"),
    _experimental("cc_parallel_enable", False, "communication is no part of a graph here"),
    _experimental("memory_efficiency", False, "the arena belongs to its model"),
    _experimental("npu_fx_pass", False, "its passes make operators of torch_npu"),
    _experimental("aot_config_enable_joint_graph", False, "graphs are compiled for inference"),
    _experimental("aot_config_output_loss_index", 0, "graphs are compiled for inference"),
    _experimental("enable_ref_data", False, "mutated inputs come out as results, and torch copies them back"),
    _experimental("tiling_schedule_optimize", False, "there are no kernels with tilings"),
    _experimental("enable_view_optimize", True, "views have no cost of their own; switch rules off by name"),
    _experimental("remove_noop_ops", True, "switch rules off by name, with fusion_switch_file"),
    Field("inference_config.dynamic_gears_merge_policy", "zip", ("zip", "product"), "how gears go together"),
    Field("aoe_config.aoe_mode", None, (None, "2"), refused=_NO_TUNING),
    Field("aoe_config.work_path", "./", "text", refused=_NO_TUNING),
    Field("aoe_config.aoe_config_file", None, "path", refused=_NO_TUNING),
    Field("aclgraph_config.use_custom_pool", None, "number", refused=_NO_DEVICE),
    # fields of older guides
    Field("optimization.level", "O3", ("O0", "O1", "O2", "O3"), "O0, O1: no fusions"),
    Field("memory.optimization", True, FLAGS, refused="memory is planned in any case"),
    Field("memory.reuse_threshold", 0, "number", refused="values of every size share memory"),
    Field("memory.limit_bytes", None, "number", "the largest arena", least=0),
    Field("operator_selection.precision_mode", None, "text", "the precision of the compile, such as fp16"),
    Field("operator_selection.keep_dtype", None, "names", "nodes that keep their element type"),
    Field("operator_selection.implementation", "high_precision", ("high_precision", "high_performance"),
          refused="there is one kernel for each operator"),
    Field("execution.device_id", 0, "number", refused="there is one device: this CPU"),
    Field("execution.stream_num", None, "number", "most streams for one engine", least=1),
    Field("execution.asynchronous", False, FLAGS, refused="a call returns when its results are there"),
    Field("dynamic_shape.range", None, "text",
          refused="shapes are compiled one by one; inference.set_dim_gears bounds them"),
    Field("precision_check.enable", False, FLAGS, "compares the first run of each model with torch"),
    Field("precision_check.rtol", 1e-3, "decimal", "the largest relative error of that", least=0),
    Field("amp.enable", False, FLAGS, "precision mixed_float16"),
    Field("amp.dtype", "float16", ("float16",), "the narrow type"),
    Field("amp.keep_dtype", None, "names", "nodes that keep their element type"),
    Field("distributed.world_size", 1, "number", refused=_ONE_PROCESS),
    Field("distributed.rank", 0, "number", refused=_ONE_PROCESS),
    Field("distributed.backend", None, "text", refused=_ONE_PROCESS),
    # what TorchAir does not have
    Field("gerules.device", "host", "text", "a device to compile for as well; what runs is for this CPU"),
    Field("gerules.precision", None, "text", "the precision of the compile for that device"),
    Field("gerules.rules", None, "names", "more rule files"),
    Field("gerules.fallback", "eager", ("eager", "error"), "what happens to a graph that cannot be compiled"),
    Field("gerules.cache_size", 16, "number", "most sets of shapes that a graph keeps", least=1),
)  # fmt: skip
"""The configuration as a table; docs/migrating.md shows it."""
