"""gerules: compile neural networks as Ascend's Graph Engine does, with every decision written as text."""
