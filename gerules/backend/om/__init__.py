"""The `.om` offline model file: records, reader and writer."""

from gerules.backend.om.attributes import (
    bools,
    floats,
    ints,
    read_bool,
    read_float,
    read_floats,
    read_int,
    read_ints,
    read_text,
    read_texts,
    texts,
)
from gerules.backend.om.constants import constant_array, constant_bytes
from gerules.backend.om.container import OmFile, read_container
from gerules.backend.om.error import OmError
from gerules.backend.om.model import (
    ABSENT,
    Edge,
    OmGraph,
    OmInterface,
    OmList,
    OmModel,
    OmOp,
    OmPort,
    OmTensor,
    Prototype,
    TensorValue,
    Workspace,
)
from gerules.backend.om.read import read_om
from gerules.backend.om.tasks import OmCopy, OmKernel, OmTask, OmTasks, TaskType
from gerules.backend.om.weights import Placement, WeightsBuilder
from gerules.backend.om.write import write_om

__all__ = [
    "ABSENT",
    "Edge",
    "OmCopy",
    "OmError",
    "OmFile",
    "OmGraph",
    "OmInterface",
    "OmKernel",
    "OmList",
    "OmModel",
    "OmOp",
    "OmPort",
    "OmTask",
    "OmTasks",
    "OmTensor",
    "Placement",
    "Prototype",
    "TaskType",
    "TensorValue",
    "WeightsBuilder",
    "Workspace",
    "bools",
    "constant_array",
    "constant_bytes",
    "floats",
    "ints",
    "read_bool",
    "read_container",
    "read_float",
    "read_floats",
    "read_int",
    "read_ints",
    "read_om",
    "read_text",
    "read_texts",
    "texts",
    "write_om",
]
