"""Models that scripts have loaded, by the small numbers that pyACL gives them; bundles of them."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

import gerules.compat.acl.codes as codes
from gerules.backend.om import OmModel, read_container, read_om
from gerules.backend.om.read import open_view, read_model
from gerules.compat.acl.calling import AclFault, fault
from gerules.compat.acl.model_facts import ModelFacts, read_facts
from gerules.errors import GerulesError, table
from gerules.runtime.executor import Executor, OpTime

Watcher = Callable[["LoadedModel", list[OpTime], int], None]
"""Told of each run: the model, what its operators took, and when it began, in nanoseconds."""

Source = str | bytes
T = TypeVar("T")

_CODES: Final[Mapping[str, int]] = {
    "E10001": codes.GE_MODEL_PATH,
    "E80001": codes.GE_PARAM_INVALID,
    "E80002": codes.GE_DATA_SIZE,
    "E80003": codes.GE_DATA_SIZE,
    "E80006": codes.FEATURE_UNSUPPORTED,
    "E80011": codes.GE_LOAD_WEIGHTS,
    "E80013": codes.GE_LOAD_TASKS,
    "E80030": codes.FEATURE_UNSUPPORTED,
    "E70001": codes.FEATURE_UNSUPPORTED,
    "E70007": codes.GE_MEMORY_ALLOCATION,
}
"""What a script gets for a file at fault, by the code of the first fault."""


@dataclass(eq=False)
class LoadedModel:
    """A model that can be run.

    `gear` is the one chosen last; `last_dims` are the shapes of the outputs of the last run.
    """

    number: int
    executor: Executor
    facts: ModelFacts
    work_bytes: int
    weight_bytes: int
    gear: tuple[int, ...] | None = None
    last_dims: tuple[tuple[int, ...], ...] = ()
    watchers: list[Watcher] = field(default_factory=list[Watcher])


@dataclass(frozen=True, slots=True)
class Bundle:
    """A file of several models: their numbers."""

    models: tuple[int, ...]


class Models:
    """The loaded models of a process."""

    def __init__(self) -> None:
        self._models: dict[int, LoadedModel] = {}
        self._bundles: dict[int, Bundle] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def load(self, source: Source) -> int:
        """Load a model from a file, or from its bytes.

        Raises:
            AclFault: 145002 for a path, 145000, 145006 or 54500x for what is wrong in the file, 200006 for
                what nothing here runs.
        """
        return self._add(_read(lambda: read_om(source)))

    def load_bundle(self, path: str) -> int:
        """Load all models of a bundle; a file that is none counts as a bundle of one. Raises as `load`."""
        file = _read(lambda: read_container(open_view(path), place=path))
        parts = file.bundled or (file,)
        models = [_read(lambda part=part: read_model(part, place=path)) for part in parts]
        bundle = Bundle(tuple(self._add(model) for model in models))
        with self._lock:
            number = next(self._numbers)
            self._bundles[number] = bundle
        return number

    def get(self, number: object) -> LoadedModel:
        """Return a model by its number. Raises 145003 when there is none."""
        return _numbered(self._models, number, codes.GE_MODEL_ID, "model", "acl.mdl.load_from_file")

    def bundle(self, number: object) -> Bundle:
        """Return a bundle by its number. Raises 100011 when there is none."""
        maker = "acl.mdl.bundle_load_from_file"
        return _numbered(self._bundles, number, codes.INVALID_MODEL_ID, "bundle", maker)

    def unload(self, number: object) -> None:
        """Forget a model. Raises 145003."""
        self._models.pop(self.get(number).number)

    def unload_bundle(self, number: int) -> None:
        """Forget a bundle and its models. Raises 100011."""
        for model in self.bundle(number).models:
            self._models.pop(model, None)
        self._bundles.pop(number)

    def clear(self) -> None:
        """Forget all of them."""
        self._models.clear()
        self._bundles.clear()

    def _add(self, om: OmModel) -> int:
        executor = _read(lambda: Executor(om))
        with self._lock:
            number = next(self._numbers)
            self._models[number] = LoadedModel(
                number,
                executor,
                read_facts(om.name, om.interface),
                om.memory_size_bytes,
                om.weights.size_bytes,
            )
        return number


def query_size(path: str) -> tuple[int, int]:
    """Return the bytes of the arena and of the weights of a model in a file. Raises as `Models.load`."""
    om = _read(lambda: read_om(path))
    return om.memory_size_bytes, om.weights.size_bytes


def _numbered(known: Mapping[int, T], number: object, code: int, kind: str, maker: str) -> T:
    """Return what has a number. Raises `code` when nothing has."""
    found = known.get(number) if isinstance(number, int) else None
    if found is None:
        raise fault(
            code, table.ACL_HANDLE, value=number, kind=kind, maker=maker,
            reason=f"no {kind} is loaded under this number",
        )  # fmt: skip
    return found


def _read(read: Callable[[], T]) -> T:
    """Do what reads a file; its faults become the numbers of pyACL."""
    try:
        return read()
    except GerulesError as error:
        raise AclFault(_CODES.get(error.code, codes.GE_LOAD_MODEL), error.diagnostics) from None
