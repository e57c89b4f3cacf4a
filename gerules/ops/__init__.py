"""Operators: schemas, and the types and shapes of what they produce."""
