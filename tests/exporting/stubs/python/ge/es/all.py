"""Operators as functions, inputs by place and attributes by name."""

from __future__ import annotations

from ge.es import Node


def __getattr__(name):
    if not name[:1].isupper():
        raise AttributeError(name)
    return lambda *inputs, **attrs: Node(name, inputs, attrs)
