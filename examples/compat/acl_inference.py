"""Run an offline model by pyACL, step by step: `python acl_inference.py model.om`.

On a device the one line that differs is the import: `import acl`.
"""

import sys

import numpy as np

from gerules.compat import acl

NORMAL_ONLY = 2
HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2
NUMPY_TYPES = {0: np.float32, 1: np.float16, 3: np.int32, 9: np.int64}


def check(what, code):
    if code != 0:
        raise RuntimeError(f"{what} returned {code}\n{acl.get_recent_err_msg()}")


class Model:
    """A loaded model, with memory on the device for its inputs and outputs."""

    def __init__(self, path):
        self.number, code = acl.mdl.load_from_file(path)
        check("load_from_file", code)
        self.desc = acl.mdl.create_desc()
        check("get_desc", acl.mdl.get_desc(self.desc, self.number))
        self.inputs = self._dataset(acl.mdl.get_num_inputs(self.desc), acl.mdl.get_input_size_by_index)
        self.outputs = self._dataset(acl.mdl.get_num_outputs(self.desc), acl.mdl.get_output_size_by_index)

    def _dataset(self, count, size_of):
        dataset = acl.mdl.create_dataset()
        for index in range(count):
            size = size_of(self.desc, index)
            address, code = acl.rt.malloc(size, NORMAL_ONLY)
            check("malloc", code)
            _, code = acl.mdl.add_dataset_buffer(dataset, acl.create_data_buffer(address, size))
            check("add_dataset_buffer", code)
        return dataset

    def run(self, arrays):
        for index, array in enumerate(arrays):
            buffer = acl.mdl.get_dataset_buffer(self.inputs, index)
            address, size = acl.get_data_buffer_addr(buffer), acl.get_data_buffer_size_v2(buffer)
            data = array.tobytes()
            code = acl.rt.memcpy(address, size, acl.util.bytes_to_ptr(data), len(data), HOST_TO_DEVICE)
            check("memcpy", code)
        check("execute", acl.mdl.execute(self.number, self.inputs, self.outputs))
        return [self._read(index) for index in range(acl.mdl.get_num_outputs(self.desc))]

    def _read(self, index):
        buffer = acl.mdl.get_dataset_buffer(self.outputs, index)
        address, size = acl.get_data_buffer_addr(buffer), acl.get_data_buffer_size_v2(buffer)
        host, code = acl.rt.malloc_host(size)
        check("malloc_host", code)
        check("memcpy", acl.rt.memcpy(host, size, address, size, DEVICE_TO_HOST))
        data = acl.util.ptr_to_bytes(host, size)
        check("free_host", acl.rt.free_host(host))
        dims, code = acl.mdl.get_cur_output_dims(self.desc, index)
        check("get_cur_output_dims", code)
        dtype = NUMPY_TYPES[acl.mdl.get_output_data_type(self.desc, index)]
        return np.frombuffer(data, dtype).reshape(dims["dims"])

    def release(self):
        for dataset in (self.inputs, self.outputs):
            for index in range(acl.mdl.get_dataset_num_buffers(dataset)):
                buffer = acl.mdl.get_dataset_buffer(dataset, index)
                check("free", acl.rt.free(acl.get_data_buffer_addr(buffer)))
                check("destroy_data_buffer", acl.destroy_data_buffer(buffer))
            check("destroy_dataset", acl.mdl.destroy_dataset(dataset))
        check("unload", acl.mdl.unload(self.number))
        check("destroy_desc", acl.mdl.destroy_desc(self.desc))


def main(path):
    check("init", acl.init())
    check("set_device", acl.rt.set_device(0))
    context, code = acl.rt.create_context(0)
    check("create_context", code)
    model = Model(path)
    arrays = []
    for index in range(acl.mdl.get_num_inputs(model.desc)):
        dims, code = acl.mdl.get_input_dims(model.desc, index)
        check("get_input_dims", code)
        dtype = NUMPY_TYPES[acl.mdl.get_input_data_type(model.desc, index)]
        arrays.append(np.ones(dims["dims"], dtype))
        print("input ", dims["name"], dims["dims"])
    for index, array in enumerate(model.run(arrays)):
        name = acl.mdl.get_output_name_by_index(model.desc, index)
        print("output", name, list(array.shape), "mean", float(array.mean()))
    model.release()
    check("destroy_context", acl.rt.destroy_context(context))
    check("reset_device", acl.rt.reset_device(0))
    check("finalize", acl.finalize())


if __name__ == "__main__":
    main(sys.argv[1])
