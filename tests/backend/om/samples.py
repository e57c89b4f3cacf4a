"""Models to write and files to read: a small convolution, and the real files kept beside the checkout."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from gerules.backend.om import (
    ABSENT,
    Edge,
    OmGraph,
    OmKernel,
    OmModel,
    OmOp,
    OmTask,
    OmTasks,
    OmTensor,
    TaskType,
    TensorValue,
    WeightsBuilder,
    ints,
    texts,
)
from gerules.backend.om.interface import derive_interface
from gerules.backend.om.model import InputKind, Prototype, Workspace
from gerules.ir.dtype import DType

WEIGHT = np.arange(9 * 1 * 16 * 16, dtype=np.float16).reshape(9, 1, 16, 16)

REAL_NAMES = (
    "a3c_pong_model.om",
    "dynamic_and_static_graph_without_unfold.om",
    "hiai_batchnorm.om",
    "hiai_relu.om",
    "hiai_tf_conv_opversion_5.om",
    "hiai_tf_softmax_infershaped.om",
)


def real_folder() -> Path:
    """The folder of `.om` files of other tools: `$GERULES_SHARED/data/om`, or `../shared/data/om`."""
    beside = Path(__file__).parents[4] / "shared"
    return Path(os.environ.get("GERULES_SHARED", beside)) / "data" / "om"


def conv_model(name: str = "stem") -> OmModel:
    """Data -> Conv2D (FRACTAL_Z weight) -> Relu -> NetOutput, two streams with an event between them."""
    builder = WeightsBuilder()
    place = builder.add(WEIGHT, DType.F16)
    x = OmTensor(
        2, (1, 1, 8, 8, 16), "NC1HWC0", size_bytes=2080, origin_shape=(1, 3, 8, 8), origin_layout="NCHW"
    )
    w = OmTensor(
        2, (9, 1, 16, 16), "FRACTAL_Z", size_bytes=4640, origin_shape=(16, 3, 3, 3), origin_layout="NCHW"
    )
    stored = OmTensor(
        2, (9, 1, 16, 16), "FRACTAL_Z", weight_size_bytes=place.size_bytes, data_offset=place.offset_bytes
    )
    ops = (
        OmOp("image", "Data", (None,), (), (x,), (x,), {"index": 0}, ("x",), ("y",), output_offsets=(4096,)),
        OmOp("weight", "Const", (), (), (), (w,), {"value": TensorValue(stored)}, output_offsets=(0,), id=1),
        OmOp(
            "größe/conv",
            "Conv2D",
            (Edge("image"), Edge("weight"), None),
            input_descs=(x, w, ABSENT),
            output_descs=(x,),
            attrs={
                "_datadump_original_op_names": texts(["größe/conv", "plain"]),
                "data_format": "NCHW",
                "note": "Übergröße \\ tab\t",
                "strides": ints([1, 1, 2, 2]),
            },
            input_names=("x", "filter", "bias"),
            output_names=("y",),
            optional_inputs=("bias",),
            prototype=Prototype(
                (("x", InputKind.REQUIRED), ("filter", InputKind.REQUIRED), ("bias", InputKind.OPTIONAL)),
                (("y", False),),
                ("strides", "data_format"),
            ),
            input_offsets=(4096, place.offset_bytes),
            output_offsets=(0,),
            workspace=(Workspace(2048, 512),),
            is_input_const=(False, True, False),
            id=2,
        ),
        OmOp(
            "relu", "Relu", (Edge("größe/conv"),), ("image",), (x,), (x,), {}, ("x",), ("y",),
            input_offsets=(0,), output_offsets=(6144,), stream_id=1, id=3,
        ),
        OmOp("Node_Output", "NetOutput", (Edge("relu"),), (), (x,), input_offsets=(6144,), stream_id=1, id=4),
    )  # fmt: skip
    root = OmGraph("main", ops, (Edge("image"),), (Edge("relu"),))
    return OmModel(
        name,
        (root,),
        {"soc_version": "Ascend310P3"},
        builder.build(),
        derive_interface(root, ["relu:0"]),
        OmTasks(
            (
                OmTask(TaskType.KERNEL, 0, 2, kernel=OmKernel("conv2d__kernel0", n_blocks=8, args=b"\1\2\3")),
                OmTask(TaskType.EVENT_RECORD, 0, 2, event_id=0),
                OmTask(TaskType.EVENT_WAIT, 1, 3, event_id=0),
                OmTask(TaskType.KERNEL, 1, 3, kernel=OmKernel("relu__kernel0"), private=b"relu"),
            ),
            0x140000000,
        ),
        memory_size_bytes=8192,
        zero_copy_size_bytes=4096,
        n_streams=2,
        n_events=1,
        platform_version="1.11.z.0",
    )
