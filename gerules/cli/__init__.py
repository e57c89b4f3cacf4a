"""The command line: `gerules compile`, `run`, `show`, `phase`, `rules`, `devices`, `demo`."""
