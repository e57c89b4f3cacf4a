"""Errors: one table of stable codes, diagnostics that point into a text, and exceptions that carry them."""

from gerules.errors.diagnostic import Diagnostic, Faults, GerulesError, Source, Span, render
from gerules.errors.table import TABLE, ErrorCode

__all__ = ["TABLE", "Diagnostic", "ErrorCode", "Faults", "GerulesError", "Source", "Span", "render"]
