"""Run an offline model many times on a stream, with callbacks on a thread: `python acl_async.py model.om`."""

import sys

import numpy as np

from gerules.compat import acl

NORMAL_ONLY = 2
HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2
N_RUNS, RUNS_PER_CALLBACK, TIMEOUT_MS = 6, 2, 50


def check(what, code):
    if code != 0:
        raise RuntimeError(f"{what} returned {code}\n{acl.get_recent_err_msg()}")


def make_dataset(desc, count, size_of, fill=None):
    dataset = acl.mdl.create_dataset()
    for index in range(count):
        size = size_of(desc, index)
        address, code = acl.rt.malloc(size, NORMAL_ONLY)
        check("malloc", code)
        if fill is not None:
            data = np.full(size // 4, fill, np.float32).tobytes()
            check("memcpy", acl.rt.memcpy(address, size, acl.util.bytes_to_ptr(data), size, HOST_TO_DEVICE))
        _, code = acl.mdl.add_dataset_buffer(dataset, acl.create_data_buffer(address, size))
        check("add_dataset_buffer", code)
    return dataset


def free_dataset(dataset):
    for index in range(acl.mdl.get_dataset_num_buffers(dataset)):
        buffer = acl.mdl.get_dataset_buffer(dataset, index)
        check("free", acl.rt.free(acl.get_data_buffer_addr(buffer)))
        check("destroy_data_buffer", acl.destroy_data_buffer(buffer))
    check("destroy_dataset", acl.mdl.destroy_dataset(dataset))


class Runner:
    """Runs are queued on a stream; every few of them a callback reads what they made."""

    def __init__(self, path):
        check("init", acl.init())
        check("set_device", acl.rt.set_device(0))
        self.context, code = acl.rt.create_context(0)
        check("create_context", code)
        self.stream, code = acl.rt.create_stream()
        check("create_stream", code)
        self.model, code = acl.mdl.load_from_file(path)
        check("load_from_file", code)
        self.desc = acl.mdl.create_desc()
        check("get_desc", acl.mdl.get_desc(self.desc, self.model))
        self.is_over = False
        self.sums = []

    def process_callbacks(self, args_list):
        """The thread that callbacks run on."""
        context, timeout = args_list
        check("set_context", acl.rt.set_context(context))
        while not self.is_over:
            acl.rt.process_report(timeout)

    def on_results(self, runs):
        """A callback: read the first output of each run."""
        for number, _, outputs in runs:
            buffer = acl.mdl.get_dataset_buffer(outputs, 0)
            address, size = acl.get_data_buffer_addr(buffer), acl.get_data_buffer_size_v2(buffer)
            host, code = acl.rt.malloc_host(size)
            check("malloc_host", code)
            check("memcpy", acl.rt.memcpy(host, size, address, size, DEVICE_TO_HOST))
            values = np.frombuffer(acl.util.ptr_to_bytes(host, size), np.float32)
            check("free_host", acl.rt.free_host(host))
            self.sums.append((number, float(values.sum())))

    def run(self):
        thread, code = acl.util.start_thread(self.process_callbacks, [self.context, TIMEOUT_MS])
        check("start_thread", code)
        check("subscribe_report", acl.rt.subscribe_report(thread, self.stream))
        n_inputs, n_outputs = acl.mdl.get_num_inputs(self.desc), acl.mdl.get_num_outputs(self.desc)
        every, waiting = [], []
        for number in range(N_RUNS):
            inputs = make_dataset(self.desc, n_inputs, acl.mdl.get_input_size_by_index, fill=number)
            outputs = make_dataset(self.desc, n_outputs, acl.mdl.get_output_size_by_index)
            check("execute_async", acl.mdl.execute_async(self.model, inputs, outputs, self.stream))
            waiting.append((number, inputs, outputs))
            if len(waiting) == RUNS_PER_CALLBACK:
                check("launch_callback", acl.rt.launch_callback(self.on_results, waiting, 1, self.stream))
                every, waiting = every + waiting, []
        check("synchronize_stream", acl.rt.synchronize_stream(self.stream))
        check("unsubscribe_report", acl.rt.unsubscribe_report(thread, self.stream))
        self.is_over = True
        check("stop_thread", acl.util.stop_thread(thread))
        for _, inputs, outputs in every:
            free_dataset(inputs)
            free_dataset(outputs)

    def release(self):
        check("unload", acl.mdl.unload(self.model))
        check("destroy_desc", acl.mdl.destroy_desc(self.desc))
        check("destroy_stream", acl.rt.destroy_stream(self.stream))
        check("destroy_context", acl.rt.destroy_context(self.context))
        check("reset_device", acl.rt.reset_device(0))
        check("finalize", acl.finalize())


def main(path):
    runner = Runner(path)
    runner.run()
    for number, total in runner.sums:
        print(f"run {number}: sum {total:.6g}")
    runner.release()


if __name__ == "__main__":
    main(sys.argv[1])
