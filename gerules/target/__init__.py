"""Targets: what a device is, as data, and what work costs on it."""

from gerules.target.cost import Cost, CostModel
from gerules.target.device import Device, Engine, FormatPort, Kernel, TargetError

__all__ = ["Cost", "CostModel", "Device", "Engine", "FormatPort", "Kernel", "TargetError"]
