"""Passes: what lies between the rule phases and is an algorithm, not a rule."""
