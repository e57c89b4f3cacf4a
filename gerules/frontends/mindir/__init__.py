"""MindIR, the model files of MindSpore, read as graphs."""

from gerules.frontends.mindir.reader import load_mindir
from gerules.frontends.mindir.records import is_mindir

__all__ = ["is_mindir", "load_mindir"]
