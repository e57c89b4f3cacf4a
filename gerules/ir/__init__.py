"""Graphs: types, frozen records, and the editor that is their only writer."""
