"""The error function for whole arrays, to a few units in the last place, without scipy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from gerules.runtime.kernels.contract import Array
from gerules.runtime.kernels.precision import F32

_CHUNK: Final = 1 << 15
"""Elements at a time: a chunk and its temporaries stay in the second-level cache."""

# Source: Eigen, generic_fast_erf_float: a [13/8] rational in x, |x| <= 4, beyond which erf is 1 in f32.
_F32_NUMERATOR: Final = (
    -2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05,
    -7.34990630326855e-04, -2.95459980854025e-03, -1.60960333262415e-02,
)  # fmt: skip
_F32_DENOMINATOR: Final = (
    -1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03, -7.37332916720468e-03,
    -1.42647390514189e-02,
)  # fmt: skip

# Source: FreeBSD msun, s_erf.c: rationals on [0, 0.84375], [0.84375, 1.25], [1.25, 1/0.35], [1/0.35, 6].
_ERX: Final = 8.45062911510467529297e-01
_PP: Final = (
    -2.37630166566501626084e-05, -5.77027029648944159157e-03, -2.84817495755985104766e-02,
    -3.25042107247001499370e-01, 1.28379167095512558561e-01,
)  # fmt: skip
_QQ: Final = (
    -3.96022827877536812320e-06, 1.32494738004321644526e-04, 5.08130628187576562776e-03,
    6.50222499887672944485e-02, 3.97917223959155352819e-01, 1.0,
)  # fmt: skip
_PA: Final = (
    -2.16637559486879084300e-03, 3.54783043256182359371e-02, -1.10894694282396677476e-01,
    3.18346619901161753674e-01, -3.72207876035701323847e-01, 4.14856118683748331666e-01,
    -2.36211856075265944077e-03,
)  # fmt: skip
_QA: Final = (
    1.19844998467991074170e-02, 1.36370839120290507362e-02, 1.26171219808761642112e-01,
    7.18286544141962662868e-02, 5.40397917702171048937e-01, 1.06420880400844228286e-01, 1.0,
)  # fmt: skip
_RA: Final = (
    -9.81432934416914548592e+00, -8.12874355063065934246e+01, -1.84605092906711035994e+02,
    -1.62396669462573470355e+02, -6.23753324503260060396e+01, -1.05586262253232909814e+01,
    -6.93858572707181764372e-01, -9.86494403484714822705e-03,
)  # fmt: skip
_SA: Final = (
    -6.04244152148580987438e-02, 6.57024977031928170135e+00, 1.08635005541779435134e+02,
    4.29008140027567833386e+02, 6.45387271733267880336e+02, 4.34565877475229228821e+02,
    1.37657754143519042600e+02, 1.96512716674392571292e+01, 1.0,
)  # fmt: skip
_RB: Final = (
    -4.83519191608651397019e+02, -1.02509513161107724954e+03, -6.37566443368389627722e+02,
    -1.60636384855821916062e+02, -1.77579549177547519889e+01, -7.99283237680523006574e-01,
    -9.86494292470009928597e-03,
)  # fmt: skip
_SB: Final = (
    -2.24409524465858183362e+01, 4.74528541206955367215e+02, 2.55305040643316442583e+03,
    3.19985821950859553908e+03, 1.53672958608443695994e+03, 3.25792512996573918826e+02,
    3.03380607434824582924e+01, 1.0,
)  # fmt: skip


def erf(x: Array, out: Array | None = None) -> Array:
    """Return erf of an f32 or f64 array, in its type; the error is below 4 ulp in f32, 1 ulp in f64."""
    result = np.empty(x.shape, x.dtype) if out is None else out
    source = np.ascontiguousarray(x).reshape(-1)
    target = result.reshape(-1) if result.flags.c_contiguous else np.empty(x.size, x.dtype)
    chunk_erf = _erf_f32 if x.dtype == F32 else _erf_f64
    for start in range(0, x.size, _CHUNK):
        target[start : start + _CHUNK] = chunk_erf(source[start : start + _CHUNK])
    if not result.flags.c_contiguous:
        result[...] = target.reshape(x.shape)
    return result


def _polynomial(x: Array, coefficients: Sequence[float]) -> Array:
    """Horner's scheme, highest power first."""
    total = x * x.dtype.type(coefficients[0])
    for coefficient in coefficients[1:-1]:
        total += coefficient
        total *= x
    total += coefficients[-1]
    return total


def _erf_f32(x: Array) -> Array:
    x = np.clip(x, -4.0, 4.0)
    square = x * x
    x *= _polynomial(square, _F32_NUMERATOR)
    x /= _polynomial(square, _F32_DENOMINATOR)
    return np.clip(x, -1.0, 1.0, out=x)


def _erf_f64(x: Array) -> Array:
    size = np.abs(x)
    result = np.sign(x)  # |x| > 6, and NaN stays NaN
    small = size < 0.84375
    if small.any():
        part = x[small]
        square = part * part
        result[small] = part + part * (_polynomial(square, _PP) / _polynomial(square, _QQ))
    middle = ~small & (size < 1.25)
    if middle.any():
        shifted = size[middle] - 1.0
        result[middle] *= _ERX + _polynomial(shifted, _PA) / _polynomial(shifted, _QA)
    for low, high, upper, lower in ((1.25, 1 / 0.35, _RA, _SA), (1 / 0.35, 6.0, _RB, _SB)):
        tail = (size >= low) & (size < high)
        if tail.any():
            result[tail] *= 1.0 - _scaled_tail(size[tail], upper, lower)
    return result


def _scaled_tail(x: Array, upper: Sequence[float], lower: Sequence[float]) -> Array:
    """Return erfc(x) as exp(-x^2 - 0.5625 + R/S) / x, the square taken exactly by splitting x."""
    inverse = 1.0 / (x * x)
    ratio = _polynomial(inverse, upper) / _polynomial(inverse, lower)
    head = (x.view(np.uint64) & np.uint64(0xFFFFFFFF00000000)).view(np.float64)
    return np.exp(-head * head - 0.5625) * np.exp((head - x) * (head + x) + ratio) / x
