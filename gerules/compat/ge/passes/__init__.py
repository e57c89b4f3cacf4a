"""Fusion passes written in Python: a pattern and a replacement become a rule of gerules."""

from gerules.compat.ge.passes.discovery import load_passes
from gerules.compat.ge.passes.match import MatchedNode, MatchResult
from gerules.compat.ge.passes.pattern_pass import (
    PatternFusionPass,
    PatternMatcherConfig,
    PatternMatcherConfigBuilder,
    create_pattern,
    create_replacement,
    pattern,
)
from gerules.compat.ge.passes.registry import PassStage, get_registered_passes, register_fusion_pass

__all__ = [
    "MatchResult",
    "MatchedNode",
    "PassStage",
    "PatternFusionPass",
    "PatternMatcherConfig",
    "PatternMatcherConfigBuilder",
    "create_pattern",
    "create_replacement",
    "get_registered_passes",
    "load_passes",
    "pattern",
    "register_fusion_pass",
]
