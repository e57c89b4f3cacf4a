"""Kernels: the meaning of ONNX operators on numpy arrays, fast where BLAS and ufuncs make it so."""

from gerules.runtime.kernels.contract import Array, Kernel, KernelContext, RunError
from gerules.runtime.kernels.dispatch import KERNELS, has_kernel, run_into, run_kernel

__all__ = ["KERNELS", "Array", "Kernel", "KernelContext", "RunError", "has_kernel", "run_into", "run_kernel"]
