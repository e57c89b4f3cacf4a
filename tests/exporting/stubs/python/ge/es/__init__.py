"""Building graphs: every operator is a node that remembers what it was built from."""

from __future__ import annotations


class Desc:
    """The type of a value. -1 is an open size, [-2] an open rank."""

    def __init__(self, shape=(), data_type=0):
        self.shape = list(shape)
        self.data_type = data_type


class Tensor:
    """The elements of a constant."""

    def __init__(self, data):
        self._data = data

    def get_data(self):
        return self._data


class Builder:
    """Makes constants."""

    def create_const_float(self, value):
        return Node("Const", (), {"value": Tensor([value])})


class Node:
    """An operator, and its one result."""

    def __init__(self, type, inputs, attrs, desc=None):
        self.type = type
        self.inputs = list(inputs)
        self.attrs = dict(attrs)
        self.desc = desc or Desc()

    def get_owner_builder(self):
        return Builder()

    def get_attr(self, name):
        return self.attrs[name]

    def has_attr(self, name):
        return name in self.attrs

    def get_input_desc(self, slot):
        return self.inputs[slot].desc

    def get_output_desc(self, slot):
        assert slot == 0
        return self.desc

    def get_in_data_nodes_and_port_indexes(self, slot):
        return self.inputs[slot], 0
