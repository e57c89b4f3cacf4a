"""Inputs of a run: read from .npy and .npz files, or made up from a seed."""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from gerules.cli.errors import CliError
from gerules.errors import Faults, table
from gerules.ir import UNKNOWN_DIM, DType, TensorType, ValueType
from gerules.runtime.kernels import Array, RunError
from gerules.text.files import open_regular

_N_IDS: Final = 8
"""Made-up integers lie below this: they may be token ids, and every vocabulary has a few."""

_FLAG_NAMES: Final = ("mask", "type", "segment")
"""Integer inputs of these names take 0 and 1 only."""

_MASK: Final = "mask"
"""Flags of this name let the first place through: attention over nothing at all has no meaning to compare."""

_NPY: Final = b"\x93NUMPY"
"""How .npy files begin."""

_MAX_ELEMENTS: Final = 1 << 31
"""Most elements of one made-up input."""

_MAX_UNPACKED_BYTES: Final = 1 << 33
"""Largest .npz, unpacked."""


def feed_paths(texts: Sequence[str]) -> list[Path]:
    """Return the files that `--input` values may mean, for comparison with other paths."""
    return [Path(place) for text in texts for place in (text, text.partition("=")[2]) if place]


def read_feeds(texts: Sequence[str], names: Sequence[str]) -> dict[str, Array]:
    """Read `--input` values: `name=file.npy`, `all.npz`, or `file.npy` for the only input.

    Raises:
        CliError: E10001 and E10003 for every file that cannot be used.
    """
    faults = Faults()
    feeds: dict[str, Array] = {}
    for text in texts:
        try:
            found = _read_one(text, names)
        except CliError as error:
            faults.extend(error.diagnostics)
            continue
        for name in found.keys() & feeds.keys():
            faults.add(
                table.BAD_OPTION, option="--input", value=text, reason=f"{name} is given twice",
                remedy="give each input once",
            )  # fmt: skip
        feeds |= found
    faults.raise_if_any(CliError)
    return feeds


def make_feeds(ports: Mapping[str, ValueType], dims: Mapping[str, int], seed: int) -> dict[str, Array]:
    """Make up an array for each input: normal floats, small whole numbers; the same for the same seed.

    Args:
        dims: Sizes of symbolic dimensions; others are 1.

    Raises:
        RunError: E20006 for inputs that are no tensors, E20004 for those of unknown rank or absurd size.
        CliError: E10003 for a dimension that no input has.
    """
    check_dims(ports, dims)
    faults = Faults()
    feeds: dict[str, Array] = {}
    for name, type in ports.items():
        if not isinstance(type, TensorType):
            faults.add(table.INPUT_KIND, name=name, found="made up, as only tensors can be,", expected=type)
        elif type.shape is None or type.dtype is DType.UNKNOWN:
            faults.add(
                table.INPUT_SHAPE, name=name, found="*, so that none can be made up,",
                expected="a known rank and type",
            )  # fmt: skip
        else:
            shape = tuple(dim if isinstance(dim, int) else dims.get(dim, 1) for dim in type.shape)
            if np.prod(shape, dtype=object) > _MAX_ELEMENTS:
                faults.add(table.INPUT_SHAPE, name=name, found=list(shape), expected="a size that fits")
                continue
            # Each input has a stream of its own: one more input leaves the others as they were.
            rng = np.random.default_rng([seed, zlib.crc32(name.encode("utf-8", "surrogatepass"))])
            feeds[name] = _random(rng, name, type.dtype, shape)
    faults.raise_if_any(RunError)
    return feeds


def check_dims(ports: Mapping[str, ValueType], dims: Mapping[str, int]) -> None:
    """Refuse sizes for symbolic dimensions that no input has. Raises CliError E10003."""
    known = {
        dim
        for type in ports.values()
        if isinstance(type, TensorType)
        for dim in type.shape or ()
        if isinstance(dim, str) and dim != UNKNOWN_DIM
    }
    faults = Faults()
    for name, size in dims.items():
        if name not in known:
            faults.add(
                table.BAD_OPTION, option="--dim", value=f"{name}={size}",
                reason=f"no input has a dimension {name}",
                remedy=f"use one of {', '.join(sorted(known))}" if known else "leave it out: all are fixed",
            )  # fmt: skip
    faults.raise_if_any(CliError)


def _random(rng: np.random.Generator, name: str, dtype: DType, shape: tuple[int, ...]) -> Array:
    found = _drawn(rng, name, dtype, shape)
    if shape and _MASK in name.lower() and (dtype is DType.BOOL or dtype.is_integer):
        found[..., :1] = 1
    return found


def _drawn(rng: np.random.Generator, name: str, dtype: DType, shape: tuple[int, ...]) -> Array:
    if dtype is DType.BOOL:
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype is DType.STRING:
        return np.full(shape, "text", object)
    if dtype.is_float:
        return rng.standard_normal(shape, np.float32).astype(dtype.numpy)
    if dtype in (DType.C64, DType.C128):
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype.numpy)
    top = 2 if any(word in name.lower() for word in _FLAG_NAMES) else _N_IDS
    return rng.integers(0, min(top, 1 << (dtype.bits - 1)), shape).astype(dtype.numpy)


def _read_one(text: str, names: Sequence[str]) -> dict[str, Array]:
    name, mark, place = text.partition("=")
    # A file may have `=` in its name; a name of an input before it decides.
    if not mark or (name not in names and Path(text).is_file()):
        name, place = "", text
    path = Path(place)
    try:
        if path.suffix.lower() == ".npz":
            found = _read_npz(path)
            return found if not name else {name: _only(found, path)}
        with open_regular(path) as file:
            if path.suffix.lower() == ".npy" and not file.read(len(_NPY)).startswith(_NPY):
                raise _FileFault("it is no .npy file")
            array = np.load(path, allow_pickle=False, mmap_mode="r")
    except OSError as error:
        raise CliError(table.FILE_NOT_FOUND, path=path, reason=error.strerror or str(error)) from None
    except CliError:
        raise
    except _FileFault as error:
        raise CliError(table.FILE_NOT_FOUND, path=path, reason=str(error)) from None
    except Exception as error:  # numpy reads headers with Python's own parser, and zipfile has its own faults
        reason = f"it is no array file ({_in_a_line(error)})"
        raise CliError(table.FILE_NOT_FOUND, path=path, reason=reason) from None
    if name:
        return {name: array}
    if len(names) == 1:
        return {names[0]: array}
    raise CliError(
        table.BAD_OPTION, option="--input", value=text, reason=f"the model has {len(names)} inputs",
        remedy=f"write it like {names[0] if names else 'name'}={place}",
    )  # fmt: skip


class _FileFault(Exception):  # noqa: N818 - it becomes a CliError where the path is known
    """A file of arrays cannot be used; the text says why."""


def _read_npz(path: Path) -> dict[str, Array]:
    with open_regular(path) as file, zipfile.ZipFile(file) as archive:
        # Some hundred bytes of a zip can stand for gigabytes; what the directory says is checked while
        # unpacking, so it is enough to look there.
        size_bytes = sum(item.file_size for item in archive.infolist())
        if size_bytes > _MAX_UNPACKED_BYTES:
            raise _FileFault(f"it holds {size_bytes} bytes; at most {_MAX_UNPACKED_BYTES} are unpacked")
        return {item.filename.removesuffix(".npy"): _read_entry(archive, item) for item in archive.infolist()}


def _read_entry(archive: zipfile.ZipFile, item: zipfile.ZipInfo) -> Array:
    """Read one array; one whose header promises more than the file holds is refused before it is made."""
    with archive.open(item) as entry:
        major, minor = np.lib.format.read_magic(entry)
        read_header = {
            (1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0
        }.get((major, minor))  # fmt: skip
        if read_header is not None:
            shape, _, dtype = read_header(entry)
            if dtype.itemsize * math.prod(shape) > item.file_size:
                raise _FileFault(f"{item.filename} is too short for an array of shape {list(shape)}")
    with archive.open(item) as entry:
        return np.lib.format.read_array(entry, allow_pickle=False)


def _in_a_line(error: Exception) -> str:
    # numpy advises to allow pickles where it meets one; nobody should.
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    return "it holds Python objects" if "pickle" in text else text


def _only(found: Mapping[str, Array], path: Path) -> Array:
    if len(found) == 1:
        return next(iter(found.values()))
    raise CliError(table.FILE_NOT_FOUND, path=path, reason=f"it holds {len(found)} arrays, not one")
