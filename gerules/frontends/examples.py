"""What a model that only runs has to be given so that its graph can be seen: examples of its inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gerules.ir import Dim


@dataclass(frozen=True, slots=True)
class Examples:
    """Inputs to trace a model with.

    Attributes:
        inputs: One tensor or array; several by position; or a mapping by name. None when none are given.
        dynamic_shapes: Which dimensions stay open, as `torch.export.export` takes them.
        shapes: Shapes by input name, from which inputs of float32 are made where `inputs` is None.
    """

    inputs: object | None = None
    dynamic_shapes: object | None = None
    shapes: Mapping[str, Sequence[Dim]] | None = None

    @property
    def is_given(self) -> bool:
        """Whether the caller gave something that only models of torch take."""
        return self.inputs is not None or self.dynamic_shapes is not None


NO_EXAMPLES = Examples()
