"""The numbers that pyACL's calls return, by the names of its documentation, and the enumerations they take.

Source: CANN, acl_base_rt.h, rt_error_codes.h, ge_error_codes.h; the numbers are the interface.
"""

from __future__ import annotations

from typing import Final

SUCCESS: Final = 0

# 1xxxxx: the caller's doing
INVALID_PARAM: Final = 100000
UNINITIALIZED: Final = 100001
REPEAT_INITIALIZE: Final = 100002
INVALID_FILE: Final = 100003
WRITE_FILE: Final = 100004
INVALID_FILE_SIZE: Final = 100005
PARSE_FILE: Final = 100006
DUMP_CONFIG: Final = 100009
PROFILING_CONFIG: Final = 100010
INVALID_MODEL_ID: Final = 100011
PARSE_MODEL: Final = 100013
INPUT_NOT_MATCH: Final = 100017
OUTPUT_NOT_MATCH: Final = 100018
MODEL_NOT_DYNAMIC: Final = 100019
DTYPE_NOT_MATCH: Final = 100026
REPEAT_SUBSCRIBE: Final = 100033
REPEAT_FINALIZE: Final = 100037
PROF_ALREADY_RUN: Final = 100042
PROF_NOT_RUN: Final = 100043
RT_PARAM_INVALID: Final = 107000
RT_DEVICE_ID: Final = 107001
RT_CONTEXT_NULL: Final = 107002
RT_STREAM_CONTEXT: Final = 107003
RT_EVENT_TIMESTAMP: Final = 107006
RT_THREAD_SUBSCRIBE: Final = 107012
RT_STREAM_NO_CALLBACK: Final = 107015
GE_PARAM_INVALID: Final = 145000
GE_MODEL_PATH: Final = 145002
GE_MODEL_ID: Final = 145003
GE_DATA_SIZE: Final = 145006
GE_DATA_ADDRESS: Final = 145007
GE_DYNAMIC_INPUT_ADDRESS: Final = 145011
GE_DYNAMIC_INPUT_LENGTH: Final = 145012
GE_BATCH_NOT_A_GEAR: Final = 145013
GE_SHAPE_INVALID: Final = 145021
GE_DTYPE_INVALID: Final = 145022

# 2xxxxx: what is not there
BAD_ALLOC: Final = 200000
INVALID_DEVICE: Final = 200002
FEATURE_UNSUPPORTED: Final = 200006
RT_MEMORY_ALLOCATION: Final = 207001
GE_MEMORY_ALLOCATION: Final = 245000

# 5xxxxx: going wrong inside
INTERNAL: Final = 500000
FAILURE: Final = 500001
RT_MODEL_EXECUTE: Final = 507011
RT_REPORT_TIMEOUT: Final = 507012
GE_INTERNAL: Final = 545000
GE_LOAD: Final = 545001
GE_LOAD_MODEL: Final = 545002
GE_LOAD_WEIGHTS: Final = 545003
GE_LOAD_TASKS: Final = 545004

# memcpy kinds, malloc policies, memory attributes
HOST_TO_HOST: Final = 0
HOST_TO_DEVICE: Final = 1
DEVICE_TO_HOST: Final = 2
DEVICE_TO_DEVICE: Final = 3
MEMCPY_DEFAULT: Final = 4
"""Either side is whatever its address says."""

RUN_MODE_HOST: Final = 1
"""The caller runs on the host, and copies to a device."""
