"""Run an offline model with batch gears, once with each: `python acl_dynamic_batch.py model.om`."""

import sys

import numpy as np

from gerules.compat import acl

NORMAL_ONLY = 2
HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2
SHAPE_INPUT = "ascend_mbatch_shape_data"


def check(what, code):
    if code != 0:
        raise RuntimeError(f"{what} returned {code}\n{acl.get_recent_err_msg()}")


def make_dataset(desc, count, size_of):
    dataset = acl.mdl.create_dataset()
    for index in range(count):
        size = size_of(desc, index)
        address, code = acl.rt.malloc(size, NORMAL_ONLY)
        check("malloc", code)
        _, code = acl.mdl.add_dataset_buffer(dataset, acl.create_data_buffer(address, size))
        check("add_dataset_buffer", code)
    return dataset


def free_dataset(dataset):
    for index in range(acl.mdl.get_dataset_num_buffers(dataset)):
        buffer = acl.mdl.get_dataset_buffer(dataset, index)
        check("free", acl.rt.free(acl.get_data_buffer_addr(buffer)))
        check("destroy_data_buffer", acl.destroy_data_buffer(buffer))
    check("destroy_dataset", acl.mdl.destroy_dataset(dataset))


def run(model, desc, inputs, outputs, batch):
    """Choose a batch, run, and return the first output."""
    dims, code = acl.mdl.get_input_dims(desc, 0)
    check("get_input_dims", code)
    data = np.ones([batch if dim < 0 else dim for dim in dims["dims"]], np.float32).tobytes()
    address = acl.get_data_buffer_addr(acl.mdl.get_dataset_buffer(inputs, 0))
    size = acl.mdl.get_input_size_by_index(desc, 0)
    check("memcpy", acl.rt.memcpy(address, size, acl.util.bytes_to_ptr(data), len(data), HOST_TO_DEVICE))
    index, code = acl.mdl.get_input_index_by_name(desc, SHAPE_INPUT)
    check("get_input_index_by_name", code)
    check("set_dynamic_batch_size", acl.mdl.set_dynamic_batch_size(model, inputs, index, batch))
    check("execute", acl.mdl.execute(model, inputs, outputs))
    dims, code = acl.mdl.get_cur_output_dims(desc, 0)
    check("get_cur_output_dims", code)
    shape = dims["dims"]
    size = int(np.prod(shape)) * 4
    host, code = acl.rt.malloc_host(size)
    check("malloc_host", code)
    address = acl.get_data_buffer_addr(acl.mdl.get_dataset_buffer(outputs, 0))
    check("memcpy", acl.rt.memcpy(host, size, address, size, DEVICE_TO_HOST))
    array = np.frombuffer(acl.util.ptr_to_bytes(host, size), np.float32).reshape(shape)
    check("free_host", acl.rt.free_host(host))
    return array


def main(path):
    check("init", acl.init())
    check("set_device", acl.rt.set_device(0))
    model, code = acl.mdl.load_from_file(path)
    check("load_from_file", code)
    desc = acl.mdl.create_desc()
    check("get_desc", acl.mdl.get_desc(desc, model))
    gears, code = acl.mdl.get_dynamic_batch(desc)
    check("get_dynamic_batch", code)
    print("batches", gears["batch"])
    inputs = make_dataset(desc, acl.mdl.get_num_inputs(desc), acl.mdl.get_input_size_by_index)
    outputs = make_dataset(desc, acl.mdl.get_num_outputs(desc), acl.mdl.get_output_size_by_index)
    for batch in gears["batch"]:
        array = run(model, desc, inputs, outputs, batch)
        print("batch", batch, "gives", list(array.shape))
    free_dataset(inputs)
    free_dataset(outputs)
    check("unload", acl.mdl.unload(model))
    check("destroy_desc", acl.mdl.destroy_desc(desc))
    check("reset_device", acl.rt.reset_device(0))
    check("finalize", acl.finalize())


if __name__ == "__main__":
    main(sys.argv[1])
