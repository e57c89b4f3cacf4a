"""Tests of exported passes."""
