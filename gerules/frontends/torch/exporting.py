"""Torch's two ONNX exporters called alike, and what they say when they give up told as a fault."""

from __future__ import annotations

import io
import re
import traceback
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NoReturn, cast

import onnx

from gerules.errors import table
from gerules.frontends.fault import ModelError
from gerules.frontends.torch.exclusive import alone
from gerules.frontends.torch.inputs import Arguments, tensor_names
from gerules.frontends.torch.quiet import quiet
from gerules.frontends.torch.results import settle_results
from gerules.frontends.torch.training import refuse_changes, refuse_script, refuse_training


def export_program(
    torch: Any,
    model: Any,
    arguments: Arguments,
    called: str,
    path: Path | None = None,
    *,
    translations: Mapping[Any, Callable[..., Any]] | None = None,
) -> onnx.ModelProto | Path:
    """Export a module or an exported program: traced by `torch.export`, nothing folded.

    Args:
        path: Where to write the model and its weights, instead of keeping them in memory.
        translations: What makes ONNX of an operator of torch, before torch's own translation.

    Returns:
        The model, or `path` when it was written there.

    Raises:
        ModelError: E10080 with the operator and the line of the model that torch names; E10086 for an
            operator in training mode, E10087 for a model that changes its buffers.
    """
    program: Any = None
    try:
        with alone(), quiet(torch), _as_for_inference(torch, model), torch.no_grad():
            program = model if not isinstance(model, torch.nn.Module) else _trace(torch, model, arguments)
            refuse_training(program.graph, called, _line_in)
            with _remembered_translations():
                found = torch.onnx.export(
                    program,
                    (),
                    dynamo=True,
                    verbose=False,
                    optimize=False,
                    # Only for the names of dimensions: the program is traced.
                    dynamic_shapes=arguments.dim_names,
                    custom_translation_table=dict(translations) if translations else None,
                )
            refuse_changes(found.exported_program.graph_signature, called)
            settle_results(found.model, program)
            if path is None:
                return found.model_proto
            found.save(str(path), external_data=True)
            return path
    except ModelError:
        raise
    except Exception as error:  # whatever the model's own code and torch raise
        _refuse(error, called, program)


@contextmanager
def _remembered_translations() -> Generator[None]:
    """Let torch's exporter find its translations of operators as they were found before.

    It asks for all of them at each export, and each time the sources of about 500 functions are read and
    parsed again: 2 seconds, which a model of a few operators would wait for.
    """
    registration: Any = import_module("torch.onnx._internal.exporter._registration")
    found: Any = getattr(registration, "onnxscript_apis", None)
    if found is None or not hasattr(found, "get_torchlib_ops"):
        yield
        return
    registration.onnxscript_apis = SimpleNamespace(get_torchlib_ops=_translations)
    try:
        yield
    finally:
        registration.onnxscript_apis = found


@cache
def _translations() -> Any:
    apis: Any = import_module("torch.onnx._internal._lazy_import")
    return tuple(apis.onnxscript_apis.get_torchlib_ops())


def _trace(torch: Any, model: Any, arguments: Arguments) -> Any:
    return torch.export.export(
        model,
        arguments.positional,
        dict(arguments.named),
        dynamic_shapes=arguments.dynamic_shapes,
        strict=False,
    )


def export_script(
    torch: Any, model: Any, arguments: Arguments, called: str, path: Path | None = None
) -> onnx.ModelProto | Path:
    """Export a TorchScript module by the exporter for TorchScript; its inputs keep their names.

    Returns:
        The model, or `path` when it was written there.

    Raises:
        ModelError: E10080 with the operator that torch names; E10086 for an operator that was traced in
            training mode, E10087 for a model that changes its buffers.
    """
    names = tensor_names(model)
    options: dict[str, Any] = {} if names is None else {"input_names": names}
    if arguments.dynamic_shapes is not None:
        options["dynamic_axes"] = _axes(arguments.dim_names, names or [])
    target: Any = str(path) if path is not None else io.BytesIO()
    try:
        with alone(), quiet(torch), _as_for_inference(torch, model), torch.no_grad():
            refuse_script(model.inlined_graph, called)
            torch.onnx.export(
                model,
                arguments.positional,
                target,
                kwargs=dict(arguments.named) or None,
                dynamo=False,
                # EVAL, the default, would fold each BatchNormalization into its Conv without a word.
                training=torch.onnx.TrainingMode.PRESERVE,
                **options,
            )
    except ModelError:
        raise
    except Exception as error:  # whatever the model's own code and torch raise
        _refuse(error, called, None, str(model.inlined_graph))
    return path if path is not None else onnx.load_from_string(target.getvalue())


def _axes(shapes: Any, names: list[str]) -> dict[str, dict[int, str]]:
    """Open dimensions in the words of the exporter for TorchScript: names by axis by input."""
    by_name = cast(
        "dict[str, Any]", shapes if isinstance(shapes, dict) else dict(zip(names, shapes, strict=False))
    )
    found: dict[str, dict[int, str]] = {}
    for name, dims in by_name.items():
        axes = cast("dict[int, Any]", dims if isinstance(dims, dict) else dict(enumerate(dims or ())))
        found[name] = {
            int(axis): dim if isinstance(dim, str) else f"{name}_{axis}"
            for axis, dim in axes.items()
            if dim is not None
        }
    return found


@contextmanager
def _as_for_inference(torch: Any, model: Any) -> Generator[None]:
    """Every part of a module in eval mode, and afterwards in the mode it had."""
    if not isinstance(model, torch.nn.Module):
        yield
        return
    modes: list[tuple[Any, bool]] = [(part, bool(part.training)) for part in model.modules()]
    try:
        model.eval()
        yield
    finally:
        for part, mode in modes:
            part.training = mode


# ---------------------------------------------------------------- what torch says when it gives up
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
_OPERATORS: Final = (
    re.compile(r"OpOverload\(op='([\w.:]+)'(?:, overload='(\w+)')?"),
    re.compile(r"[Ee]xporting the operator '?([\w:.]+)'?"),
    re.compile(r"target=torch\.ops\.([\w.]+)"),
    re.compile(r"torch\.ops\.([\w.]+)"),
)
_LINES: Final = re.compile(r'File "([^"]+)", line (\d+), in \w+\n\s+([^\n]+)')
_INSIDE_TORCH: Final = re.compile(r"-packages[\\/](?:torch|onnxscript|onnx_ir)[\\/]")
_HERE: Final = str(Path(__file__).parents[2])
_LONGEST_REASON: Final = 300
_MOST_CAUSES: Final = 20


def _refuse(error: Exception, called: str, program: Any, script: str = "") -> NoReturn:
    reason, operator, line = explain(error, program)
    if operator and not line:
        # The text of a scripted graph ends each node with its line.
        name = re.escape(operator.replace(".", "::", 1))
        found = re.search(rf"= {name}\(.*# (\S+?:\d+):\d+$", script, re.M)
        line = found[1] if found else ""
    notes = ([f"the operator is {operator}"] if operator else []) + ([f"in {line}"] if line else [])
    raise ModelError(table.NOT_EXPORTED, place=called, model=called, reason=reason, notes=notes) from None


def explain(error: BaseException, program: Any = None) -> tuple[str, str, str]:
    """Return why torch gave up: the innermost reason in one line, the operator, and the line of the model.

    The latter two are empty where torch does not name them.
    """
    texts: list[str] = []
    last, inner = error, error
    while inner is not None and len(texts) < _MOST_CAUSES:
        texts.append(_COLOURS.sub("", f"{inner}"))
        last, inner = inner, inner.__cause__ or inner.__context__
    lines = [line.strip() for line in texts[-1].splitlines() if line.strip()]
    # TorchScript shows its own stack first, and the cause in the last line.
    is_script = bool(lines) and lines[0].startswith("The following operation failed in the TorchScript")
    first = (lines[-1] if is_script else lines[0]) if lines else type(last).__name__
    if is_script:
        first = first.removeprefix("RuntimeError: ")
    whole = "\n".join(reversed(texts))
    operator = _operator_in(whole)
    line = _line_of(operator, program) or _line_in(whole)
    raised_at, is_innermost = _raised_at(last)
    if is_innermost:
        return f"its own code raises {type(last).__name__}: {first}"[:_LONGEST_REASON], "", raised_at
    return first[:_LONGEST_REASON].rstrip("."), operator, line or raised_at


def _raised_at(error: BaseException) -> tuple[str, bool]:
    """The innermost line of the model's own code that an error came through, and whether it raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [
        frame
        for frame in frames
        if not _INSIDE_TORCH.search(frame.filename) and not frame.filename.startswith((_HERE, "<"))
    ]
    if not own or not frames:
        return "", False
    return f"{own[-1].filename}:{own[-1].lineno}: {own[-1].line}", own[-1] is frames[-1]


def _operator_in(text: str) -> str:
    for pattern in _OPERATORS:
        if found := pattern.search(text):
            return ".".join(part for part in found.groups() if part).replace("::", ".")
    return ""


def _line_of(operator: str, program: Any) -> str:
    if not operator or program is None:
        return ""
    for node in program.graph.nodes:
        if str(node.target).removesuffix(".default") == operator.removesuffix(".default"):
            return _line_in(str(node.meta.get("stack_trace") or ""))
    return ""


def _line_in(text: str) -> str:
    """The innermost line of the model's own code that a text of stack frames shows."""
    frames = [match.groups() for match in _LINES.finditer(text)]
    own = [frame for frame in frames if not _INSIDE_TORCH.search(frame[0])]
    return "{}:{}: {}".format(*own[-1]) if own else ""
