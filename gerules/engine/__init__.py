"""The engine: rules compiled to matching programs, run over a graph until nothing changes."""
