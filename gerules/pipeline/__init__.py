"""The pipeline: from a model to an offline model, stage by stage."""

from gerules.pipeline.api import compile, load, load_rules, rewrite, save
from gerules.pipeline.compilation import Compilation
from gerules.pipeline.compiler import compile_graph, stage_names
from gerules.pipeline.errors import PipelineError
from gerules.pipeline.fusion_result import fusion_result, save_fusion_result
from gerules.pipeline.fusion_switch import FusionSwitch, read_fusion_switch
from gerules.pipeline.model import CompiledModel
from gerules.pipeline.options import CompileOptions
from gerules.pipeline.phases import phase_names, run_phases
from gerules.pipeline.stages import StageReport
from gerules.pipeline.summary import Summary
from gerules.pipeline.toolchain import Toolchain, make_toolchain, shipped_rules

__all__ = [
    "Compilation",
    "CompileOptions",
    "CompiledModel",
    "FusionSwitch",
    "PipelineError",
    "StageReport",
    "Summary",
    "Toolchain",
    "compile",
    "compile_graph",
    "fusion_result",
    "load",
    "load_rules",
    "make_toolchain",
    "phase_names",
    "read_fusion_switch",
    "rewrite",
    "run_phases",
    "save",
    "save_fusion_result",
    "shipped_rules",
    "stage_names",
]
