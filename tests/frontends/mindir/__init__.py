"""Tests of the MindIR front end."""
