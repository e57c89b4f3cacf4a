"""Faces of other compilers: scripts that were written for Ascend's own tools run on gerules."""
