"""The calls that scripts for pyACL make, by name: all are there, nothing else is."""

from __future__ import annotations

import pytest

from gerules.compat import acl

# By the places in a script where they come.
NAMES = {
    "acl": """
        init finalize get_recent_err_msg get_soc_name app_log
        create_data_buffer destroy_data_buffer update_data_buffer get_data_buffer_addr
        get_data_buffer_size get_data_buffer_size_v2
        create_tensor_desc destroy_tensor_desc get_tensor_desc_type get_tensor_desc_format
        get_tensor_desc_size get_tensor_desc_num_dims get_tensor_desc_dim get_tensor_desc_dim_v2
        rt mdl util prof
    """,
    "acl.rt": """
        set_device reset_device get_device get_device_count get_run_mode
        create_context destroy_context set_context get_context synchronize_device
        create_stream destroy_stream synchronize_stream
        create_event destroy_event record_event stream_wait_event synchronize_event event_elapsed_time
        malloc free malloc_host free_host memcpy memcpy_async memset memset_async get_mem_info
        subscribe_report unsubscribe_report launch_callback process_report
    """,
    "acl.mdl": """
        query_size load_from_file load_from_mem unload
        bundle_load_from_file bundle_get_model_num bundle_get_model_id bundle_unload
        create_desc get_desc destroy_desc get_num_inputs get_num_outputs
        get_input_size_by_index get_output_size_by_index
        get_input_dims get_input_dims_v2 get_output_dims get_cur_output_dims get_input_dims_range
        get_input_name_by_index get_output_name_by_index get_input_index_by_name get_output_index_by_name
        get_input_format get_output_format get_input_data_type get_output_data_type
        get_dynamic_batch get_dynamic_hw get_input_dynamic_gear_count get_input_dynamic_dims
        set_dynamic_batch_size set_dynamic_hw_size set_input_dynamic_dims
        create_dataset destroy_dataset add_dataset_buffer get_dataset_num_buffers get_dataset_buffer
        set_dataset_tensor_desc get_dataset_tensor_desc
        execute execute_async
    """,
    "acl.util": """
        bytes_to_ptr ptr_to_bytes numpy_to_ptr numpy_contiguous_to_ptr ptr_to_numpy start_thread stop_thread
    """,
    "acl.prof": """
        init finalize create_config destroy_config set_config start stop
        create_stamp destroy_stamp set_stamp_trace_message push pop range_start range_stop mark
        create_subscribe_config destroy_subscribe_config model_subscribe model_unsubscribe
        get_op_desc_size get_op_num get_model_id get_op_type get_op_type_v2 get_op_name get_op_name_v2
        get_op_start get_op_end get_op_duration
    """,
}
MODULES = {"acl": acl, "acl.rt": acl.rt, "acl.mdl": acl.mdl, "acl.util": acl.util, "acl.prof": acl.prof}


@pytest.mark.parametrize("module", NAMES)
def test_the_calls_of_scripts_are_there(module: str) -> None:
    found = MODULES[module]
    assert sorted(NAMES[module].split()) == sorted(dir(found))
    silent = [name for name in dir(found) if not getattr(found, name).__doc__]
    assert silent == []
