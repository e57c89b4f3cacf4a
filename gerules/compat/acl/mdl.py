"""acl.mdl: models, their descriptions, data sets, and runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import gerules.compat.acl.codes as codes
from gerules.compat.acl.calling import (
    fault,
    no_sizes,
    returns_code,
    returns_pair,
    returns_value,
    text_of,
    whole,
)
from gerules.compat.acl.datasets import (
    BUFFER,
    DATASET,
    MODEL_DESC,
    TENSOR_DESC,
    DataBuffer,
    Dataset,
    ModelDesc,
    TensorDesc,
)
from gerules.compat.acl.execution import perform, prepare
from gerules.compat.acl.gears import (
    get_dynamic_batch,
    get_dynamic_hw,
    get_input_dynamic_dims,
    get_input_dynamic_gear_count,
    set_dynamic_batch_size,
    set_dynamic_hw_size,
    set_input_dynamic_dims,
)
from gerules.compat.acl.model_facts import LONGEST_NAME, ModelFacts, PortFacts
from gerules.compat.acl.models import LoadedModel
from gerules.compat.acl.models import query_size as size_of_file
from gerules.compat.acl.process import PROCESS
from gerules.errors import table
from gerules.errors.counts import there_are

Dims = dict[str, object]
"""`name`, `dimCount`, `dims`."""

__all__ = [
    "add_dataset_buffer",
    "bundle_get_model_id",
    "bundle_get_model_num",
    "bundle_load_from_file",
    "bundle_unload",
    "create_dataset",
    "create_desc",
    "destroy_dataset",
    "destroy_desc",
    "execute",
    "execute_async",
    "get_cur_output_dims",
    "get_dataset_buffer",
    "get_dataset_num_buffers",
    "get_dataset_tensor_desc",
    "get_desc",
    "get_dynamic_batch",
    "get_dynamic_hw",
    "get_input_data_type",
    "get_input_dims",
    "get_input_dims_range",
    "get_input_dims_v2",
    "get_input_dynamic_dims",
    "get_input_dynamic_gear_count",
    "get_input_format",
    "get_input_index_by_name",
    "get_input_name_by_index",
    "get_input_size_by_index",
    "get_num_inputs",
    "get_num_outputs",
    "get_output_data_type",
    "get_output_dims",
    "get_output_format",
    "get_output_index_by_name",
    "get_output_name_by_index",
    "get_output_size_by_index",
    "load_from_file",
    "load_from_mem",
    "query_size",
    "set_dataset_tensor_desc",
    "set_dynamic_batch_size",
    "set_dynamic_hw_size",
    "set_input_dynamic_dims",
    "unload",
]


def __dir__() -> list[str]:
    return list(__all__)


# ---------------------------------------------------------------- loading
def query_size(file_name: str) -> tuple[int, int, int]:
    """Return the bytes of working memory and of weights that a model needs, and 0 or as `load_from_file`."""
    (work_bytes, weight_bytes), code = _query_size(file_name)
    return work_bytes, weight_bytes, code


@returns_pair("acl.mdl.query_size", no_sizes)
def _query_size(file_name: str) -> tuple[int, int]:
    return size_of_file(text_of(file_name, "file_name"))


@returns_pair("acl.mdl.load_from_file", int)
def load_from_file(model_path: str) -> int:
    """Load an offline model; return its number, and 0.

    Other codes are 107002 without a context, 145002 for a path that cannot be read,
    145000 and 145006 for what
    is no whole `.om`, 545002 to 545004 for what is wrong inside, 200006 for what nothing here can run.
    """
    path = text_of(model_path, "model_path")
    PROCESS.contexts.current()
    return PROCESS.models.load(path)


@returns_pair("acl.mdl.load_from_mem", int)
def load_from_mem(model: int, model_size: int) -> int:
    """Load an offline model from host or device memory.

    Its bytes are copied. Codes as `load_from_file`, 145007.
    """
    address, size_bytes = whole(model, "model"), whole(model_size, "model_size", least=1)
    PROCESS.contexts.current()
    view = PROCESS.memory.span(address, size_bytes, "model", code=codes.GE_DATA_ADDRESS)
    return PROCESS.models.load(view.tobytes())


@returns_code("acl.mdl.unload")
def unload(model_id: int) -> None:
    """Forget a model. Returns 0 or 145003."""
    PROCESS.models.unload(model_id)


@returns_pair("acl.mdl.bundle_load_from_file", int)
def bundle_load_from_file(model_path: str) -> int:
    """Load all models of a bundle; return its number, and 0 or as `load_from_file`."""
    path = text_of(model_path, "model_path")
    PROCESS.contexts.current()
    return PROCESS.models.load_bundle(path)


@returns_pair("acl.mdl.bundle_get_model_num", int)
def bundle_get_model_num(bundle_id: int) -> int:
    """Return how many models a bundle has, and 0 or 100011."""
    return len(PROCESS.models.bundle(bundle_id).models)


@returns_pair("acl.mdl.bundle_get_model_id", int)
def bundle_get_model_id(bundle_id: int, index: int) -> int:
    """Return the number of a model of a bundle, and 0, 100000 or 100011."""
    models = PROCESS.models.bundle(bundle_id).models
    return models[_place(index, len(models), "model")]


@returns_code("acl.mdl.bundle_unload")
def bundle_unload(bundle_id: int) -> None:
    """Forget a bundle and its models. Returns 0 or 100011."""
    PROCESS.models.unload_bundle(bundle_id)


# ---------------------------------------------------------------- descriptions
@returns_value("acl.mdl.create_desc", int)
def create_desc() -> int:
    """Return an empty description, 0 before init."""
    return PROCESS.handles.add(ModelDesc())


@returns_code("acl.mdl.get_desc")
def get_desc(model_desc: int, model_id: int) -> None:
    """Fill a description from a model. Returns 0, 100000 or 145003."""
    desc = PROCESS.handles.get(model_desc, ModelDesc, MODEL_DESC)
    desc.model = PROCESS.models.get(model_id)


@returns_code("acl.mdl.destroy_desc")
def destroy_desc(model_desc: int) -> None:
    """Forget a description. Returns 0 or 100000."""
    PROCESS.handles.remove(model_desc, ModelDesc, MODEL_DESC)


@returns_value("acl.mdl.get_num_inputs", int)
def get_num_inputs(model_desc: int) -> int:
    """Return the number of inputs, that which chooses a gear included."""
    return len(_facts(model_desc).inputs)


@returns_value("acl.mdl.get_num_outputs", int)
def get_num_outputs(model_desc: int) -> int:
    """Return the number of outputs."""
    return len(_facts(model_desc).outputs)


@returns_value("acl.mdl.get_input_size_by_index", int)
def get_input_size_by_index(model_desc: int, index: int) -> int:
    """Return the bytes of an input at its largest gear, 0 where its shape is open."""
    return _input(model_desc, index).size_bytes


@returns_value("acl.mdl.get_output_size_by_index", int)
def get_output_size_by_index(model_desc: int, index: int) -> int:
    """Return the bytes of an output at its largest gear, 0 where its shape is open."""
    return _output(model_desc, index).size_bytes


@returns_pair("acl.mdl.get_input_dims", dict[str, object])
def get_input_dims(model_desc: int, index: int) -> Dims:
    """Return name and shape of an input, -1 where the caller chooses, and 0 or 100000."""
    return _dims_of(model_desc, index, "input")


@returns_pair("acl.mdl.get_input_dims_v2", dict[str, object])
def get_input_dims_v2(model_desc: int, index: int) -> Dims:
    """Return name and shape of an input, -1 where the caller chooses, and 0 or 100000."""
    return _dims_of(model_desc, index, "input")


@returns_pair("acl.mdl.get_output_dims", dict[str, object])
def get_output_dims(model_desc: int, index: int) -> Dims:
    """Return name and shape of an output, that of the largest gear, and 0 or 100000."""
    return _dims_of(model_desc, index, "output")


@returns_pair("acl.mdl.get_cur_output_dims", dict[str, object])
def get_cur_output_dims(model_desc: int, index: int) -> Dims:
    """Return name and shape of an output at the gear that was chosen, and 0 or 100000.

    Where a model has no gears, and its shapes are open, that of the last run.
    """
    found = _dims_of(model_desc, index, "output")
    model = _desc(model_desc).model
    dims = None if model is None else _current_dims(model, whole(index, "index"))
    return found if dims is None else {**found, "dimCount": len(dims), "dims": list(dims)}


@returns_pair("acl.mdl.get_input_dims_range", dict[str, object])
def get_input_dims_range(model_desc: int, index: int) -> dict[str, object]:
    """Return `rangeCount` and `range`, least and largest of each dimension, -1 for no end.

    And 0 or 100000.
    """
    ranges = [list(pair) for pair in _input(model_desc, index).ranges]
    return {"rangeCount": len(ranges), "range": ranges}


@returns_value("acl.mdl.get_input_name_by_index", str)
def get_input_name_by_index(model_desc: int, index: int) -> str:
    """Return the name of an input, empty when there is none."""
    return _input(model_desc, index).name


@returns_value("acl.mdl.get_output_name_by_index", str)
def get_output_name_by_index(model_desc: int, index: int) -> str:
    """Return the name of an output, empty when there is none."""
    return _output(model_desc, index).name


@returns_pair("acl.mdl.get_input_index_by_name", int)
def get_input_index_by_name(model_desc: int, name: str) -> int:
    """Return the place of an input, and 0 or 100000."""
    return _find_port(_facts(model_desc).inputs, name, "input", _number_of(model_desc))


@returns_pair("acl.mdl.get_output_index_by_name", int)
def get_output_index_by_name(model_desc: int, name: str) -> int:
    """Return the place of an output, and 0 or 100000."""
    return _find_port(_facts(model_desc).outputs, name, "output", _number_of(model_desc))


@returns_value("acl.mdl.get_input_format", lambda: -1)
def get_input_format(model_desc: int, index: int) -> int:
    """Return the number of an input's format, -1 when there is none."""
    return _input(model_desc, index).format


@returns_value("acl.mdl.get_output_format", lambda: -1)
def get_output_format(model_desc: int, index: int) -> int:
    """Return the number of an output's format, -1 when there is none."""
    return _output(model_desc, index).format


@returns_value("acl.mdl.get_input_data_type", lambda: -1)
def get_input_data_type(model_desc: int, index: int) -> int:
    """Return the number of an input's element type, -1 when there is none."""
    return _input(model_desc, index).dtype


@returns_value("acl.mdl.get_output_data_type", lambda: -1)
def get_output_data_type(model_desc: int, index: int) -> int:
    """Return the number of an output's element type, -1 when there is none."""
    return _output(model_desc, index).dtype


# ---------------------------------------------------------------- data sets
@returns_value("acl.mdl.create_dataset", int)
def create_dataset() -> int:
    """Return an empty data set, 0 before init."""
    return PROCESS.handles.add(Dataset())


@returns_code("acl.mdl.destroy_dataset")
def destroy_dataset(dataset: int) -> None:
    """Forget a data set, not its buffers. Returns 0 or 100000."""
    found = PROCESS.handles.remove(dataset, Dataset, DATASET)
    for desc in (*found.descs.values(), *found.left.values()):
        PROCESS.handles.discard(desc)


def add_dataset_buffer(dataset: int, data_buffer: int) -> tuple[int, int]:
    """Add a buffer; return the data set, and 0 or 100000."""
    return dataset, _add_dataset_buffer(dataset, data_buffer)


@returns_code("acl.mdl.add_dataset_buffer")
def _add_dataset_buffer(dataset: int, data_buffer: int) -> None:
    found = PROCESS.handles.get(dataset, Dataset, DATASET)
    PROCESS.handles.get(data_buffer, DataBuffer, BUFFER)
    found.buffers.append(data_buffer)


@returns_value("acl.mdl.get_dataset_num_buffers", int)
def get_dataset_num_buffers(dataset: int) -> int:
    """Return how many buffers a data set has."""
    return len(PROCESS.handles.get(dataset, Dataset, DATASET).buffers)


@returns_value("acl.mdl.get_dataset_buffer", int)
def get_dataset_buffer(dataset: int, index: int) -> int:
    """Return the handle of a buffer, 0 when there is none."""
    buffers = PROCESS.handles.get(dataset, Dataset, DATASET).buffers
    return buffers[_place(index, len(buffers), "buffer")]


def set_dataset_tensor_desc(dataset: int, tensor_desc: int, index: int) -> tuple[int, int]:
    """Say the shape of what is in a buffer; return the data set, and 0 or 100000."""
    return dataset, _set_dataset_tensor_desc(dataset, tensor_desc, index)


@returns_code("acl.mdl.set_dataset_tensor_desc")
def _set_dataset_tensor_desc(dataset: int, tensor_desc: int, index: int) -> None:
    found = PROCESS.handles.get(dataset, Dataset, DATASET)
    at = _place(index, len(found.buffers), "buffer")
    desc = PROCESS.handles.get(tensor_desc, TensorDesc, TENSOR_DESC)
    PROCESS.handles.discard(found.descs.get(at, 0))
    PROCESS.handles.discard(found.left.pop(at, 0))
    # A copy, as on the device: the caller may destroy its own.
    found.descs[at] = PROCESS.handles.add(TensorDesc(desc.dtype, desc.dims, desc.format))


@returns_value("acl.mdl.get_dataset_tensor_desc", int)
def get_dataset_tensor_desc(dataset: int, index: int) -> int:
    """Return the handle of a description that was set, or that a run left; 0 when there is none."""
    found = PROCESS.handles.get(dataset, Dataset, DATASET)
    return found.desc_at(_place(index, len(found.buffers), "buffer"))


# ---------------------------------------------------------------- runs
@returns_code("acl.mdl.execute")
def execute(model_id: int, input: int, output: int) -> None:
    """Run a model on data sets, and wait.

    Returns:
        0; 100000, 107002, 145003; 100017 and 100018 for the number of buffers, 145006 and 145007 for their
        sizes and addresses, 145013 without a gear, 145021 and 145022 for shapes and types,
        507011 from inside.
    """
    run = _run_of(model_id, input, output)
    PROCESS.contexts.current()
    run()


@returns_code("acl.mdl.execute_async")
def execute_async(model_id: int, input: int, output: int, stream: int) -> None:
    """Run a model when a stream comes to it.

    Codes as `execute`; what is found only then, from `synchronize_stream`.
    """
    run = _run_of(model_id, input, output)
    PROCESS.contexts.stream(stream).submit(run)


def _run_of(model_id: int, input: int, output: int) -> Callable[[], None]:
    model = PROCESS.models.get(model_id)
    source = PROCESS.handles.get(input, Dataset, DATASET)
    target = PROCESS.handles.get(output, Dataset, DATASET)
    run = prepare(PROCESS, model, source, target)
    return lambda: perform(PROCESS, run)


# ---------------------------------------------------------------- looking up
def _desc(handle: int) -> ModelDesc:
    return PROCESS.handles.get(handle, ModelDesc, MODEL_DESC)


def _facts(handle: int) -> ModelFacts:
    return _desc(handle).facts


def _number_of(handle: int) -> int:
    model = _desc(handle).model
    return 0 if model is None else model.number


def _place(index: object, n_items: int, what: str) -> int:
    at = whole(index, "index")
    if at >= n_items:
        raise fault(
            codes.INVALID_PARAM, table.ACL_ARGUMENT, argument="index", value=at,
            reason=there_are(n_items, what), remedy="count from 0",
        )  # fmt: skip
    return at


def _input(handle: int, index: object) -> PortFacts:
    ports = _facts(handle).inputs
    return ports[_place(index, len(ports), "input")]


def _output(handle: int, index: object) -> PortFacts:
    ports = _facts(handle).outputs
    return ports[_place(index, len(ports), "output")]


def _dims_of(handle: int, index: object, side: str) -> Dims:
    facts = _facts(handle)
    ports = facts.inputs if side == "input" else facts.outputs
    at = _place(index, len(ports), side)
    port = ports[at]
    return {
        "name": _short_name(port.name, _number_of(handle), side, at),
        "dimCount": len(port.dims),
        "dims": list(port.dims),
    }


def _short_name(name: str, model: int, side: str, at: int) -> str:
    """The name as a description holds it: one that is too long for it has another, which is found too."""
    return name if len(name.encode()) < LONGEST_NAME else f"acl_modelId_{model}_{side}_{at}"


def _find_port(ports: Sequence[PortFacts], name: object, side: str, model: int) -> int:
    wanted = text_of(name, "name")
    for at, port in enumerate(ports):
        if wanted in (port.name, _short_name(port.name, model, side, at)):
            return at
    raise fault(
        codes.INVALID_PARAM, table.ACL_ARGUMENT, argument="name", value=wanted,
        reason=f"the model has no {side} of that name; it has {', '.join(port.name for port in ports[:20])}",
        remedy="pass one of them",
    )  # fmt: skip


def _current_dims(model: LoadedModel, at: int) -> tuple[int, ...] | None:
    facts = model.facts
    if facts.kind is not None and model.gear is not None:
        return facts.gear_outputs.get((facts.gears.index(model.gear), at))
    if facts.outputs[at].is_open and at < len(model.last_dims):
        return model.last_dims[at]
    return None
