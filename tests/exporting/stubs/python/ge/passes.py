"""Pattern passes: the classes that exported ones extend, and where they are registered."""

from __future__ import annotations

from enum import Enum

REGISTERED = {}


class PassStage(Enum):
    """When a pass runs."""

    BEFORE_INFER_SHAPE = 0
    AFTER_INFER_SHAPE = 1


class PatternMatcherConfigBuilder:
    """How strictly constants and attributes are matched."""

    def __init__(self):
        self.enabled = []

    def enable_const_value_match(self):
        self.enabled.append("const")
        return self

    def enable_ir_attr_match(self):
        self.enabled.append("attr")
        return self

    def build(self):
        return tuple(self.enabled)


class PatternFusionPass:
    """A pass by pattern and replacement."""

    def __init__(self, config=()):
        self.config = config

    def meet_requirements(self, match_result):
        return True


def pattern(method):
    method.is_pattern = True
    return method


def register_fusion_pass(*, name, stage, kind=None):
    def register(cls):
        assert name not in REGISTERED and isinstance(stage, PassStage)
        REGISTERED[name] = cls
        return cls

    return register
