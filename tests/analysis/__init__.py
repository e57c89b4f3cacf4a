"""Tests of what can be said of rules before they run."""
