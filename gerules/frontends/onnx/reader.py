"""Reading ONNX: a file, bytes or ModelProto to a checked graph."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

import onnx
import onnx.defs
from google.protobuf.message import DecodeError
from onnx import ModelProto

from gerules.errors import Faults, table
from gerules.frontends.fault import ModelError
from gerules.frontends.onnx.external import DataFiles, map_file
from gerules.frontends.onnx.findings import Findings, NotText, has_broken_text, place_of_node, text_of
from gerules.frontends.onnx.functions import Functions
from gerules.frontends.onnx.nodes import GraphReader, normal_domain
from gerules.frontends.onnx.operators import Ledger, Operators
from gerules.frontends.onnx.scope import Build, Scope
from gerules.frontends.onnx.tensors import Tensors
from gerules.frontends.onnx.value_types import ValueTypes
from gerules.frontends.onnx.wire import Payload, cut_tensors, explain_damage
from gerules.ir import Graph
from gerules.ir.collector import paused_collector
from gerules.ops.registry import Schemas

_FIRST_WITH_OPSETS: Final = 3
"""Files of an older IR version import no opsets and mean version 1. Source: onnx, IR.md."""

_LARGEST_MESSAGE_BYTES: Final = 1 << 31
"""Source: protobuf, the limit of one message."""

MODEL_FIELDS: Final = ("producer_name", "producer_version", "domain", "doc_string")
"""Texts of a ModelProto that become metadata, under `onnx.` and their name."""


def load_onnx(
    source: str | Path | bytes | ModelProto,
    *,
    schemas: Schemas | None = None,
    faults: Faults | None = None,
    folder: str | Path | None = None,
    kept_domains: Collection[str] = (),
) -> Graph:
    """Read an ONNX model and check it.

    Weights of a file or of bytes are views into it, not copies (those of fewer than eight bits, and
    those in varint fields, are unpacked). The file must not be cut short while they live. `Constant`
    nodes become constants; calls of the model's functions are replaced by what the functions do.

    Args:
        schemas: The operators that exist; those of the installed `onnx` unless given. Operators of a
            domain of which nothing is known are let through.
        faults: Receives warnings (nodes nobody reads, names given twice) and faults.
        folder: Where external data lies when the model is no file. For a file it is the file's folder.
        kept_domains: Functions of these domains are not expanded: their nodes keep the function as
            `bodies["body"]`.

    Raises:
        ModelError: With every fault found: E10001 and E10010-E10031 for the file, E50001 for operators
            that do not exist.

    Cost: linear in the model's nodes; weights are not touched.
    """
    findings = Findings(str(source) if isinstance(source, (str, Path)) else "the model", faults)
    with paused_collector():
        return _load(source, schemas or Schemas(), findings, Path(folder) if folder else None, kept_domains)


def _load(
    source: str | Path | bytes | ModelProto,
    schemas: Schemas,
    findings: Findings,
    folder: Path | None,
    kept_domains: Collection[str],
) -> Graph:
    model, data, payloads, secret, path = _parse(source, findings)
    files = DataFiles(path, folder)
    size_bytes = len(data) or _LARGEST_MESSAGE_BYTES
    tensors = Tensors(data, payloads, secret, files, findings, size_bytes=size_bytes)
    try:
        return _read_model(model, tensors, schemas, findings, kept_domains)
    except NotText:
        pass
    except TypeError:
        # Where a name is joined to another, bytes in its place end here; anything else is a defect.
        if not has_broken_text(model):
            raise
    raise ModelError(table.NOT_ONNX, path=findings.path, reason="a name in it is no UTF-8")


def _parse(
    source: str | Path | bytes | ModelProto, findings: Findings
) -> tuple[ModelProto, memoryview, list[Payload], int, Path | None]:
    if isinstance(source, ModelProto):
        return source, memoryview(bytes(0)), [], 0, None
    path: Path | None = None
    if isinstance(source, bytes):
        data = memoryview(source)
    else:
        path = Path(source)
        try:
            data = map_file(path)
        except (OSError, ValueError) as fault:
            reason = (fault.strerror if isinstance(fault, OSError) else None) or str(fault)
            raise ModelError(table.FILE_NOT_FOUND, path=path, reason=reason) from None
    if not data:
        findings.add(table.NOT_ONNX, path=findings.path, reason="it is empty")
        findings.close()
    secret = secrets.randbits(62) | 1
    rest, payloads = cut_tensors(data, secret=secret)
    try:
        model = ModelProto.FromString(rest if isinstance(rest, bytes) else bytes(rest))
    except DecodeError:
        findings.add(table.NOT_ONNX, path=findings.path, reason=explain_damage(data))
        findings.close()
        raise
    return model, data, payloads, secret, path


def _read_model(
    model: ModelProto,
    tensors: Tensors,
    schemas: Schemas,
    findings: Findings,
    kept_domains: Collection[str],
) -> Graph:
    if not model.HasField("graph"):
        if not model.HasField("ir_version"):
            findings.add(
                table.NOT_ONNX, path=findings.path, reason="it has neither an IR version nor a graph"
            )
        else:
            findings.add(table.NO_GRAPH)
        findings.close()
    opsets = _read_opsets(model, findings)
    ledger = Ledger(schemas, findings)
    operators = Operators(opsets, schemas, ledger)
    calls = None
    if model.functions:
        calls = Functions(
            model.functions,
            opsets=opsets,
            model=operators,
            schemas=schemas,
            ledger=ledger,
            findings=findings,
            kept_domains=kept_domains,
        )
    if model.training_info:
        findings.add(table.LEFT_OUT, what="training information", severity="warning")
    reader = GraphReader(
        ir_version=model.ir_version,
        tensors=tensors,
        types=ValueTypes(findings),
        calls=calls,
        ledger=ledger,
        findings=findings,
    )
    scope = Scope(Build(), operators)
    reader.read_graph(model.graph, scope, f"graph {model.graph.name}".rstrip())
    ledger.report()
    graph = scope.build.finish(text_of(model.graph.name), opsets, _read_metadata(model))
    _warn(graph, findings)
    findings.close()
    return graph


def _read_opsets(model: ModelProto, findings: Findings) -> dict[str, int]:
    version = model.ir_version
    # IR_VERSION is an enum's value in onnx's stubs and a number at run time.
    newest_ir = int(onnx.IR_VERSION)
    if version > newest_ir or version < 0:
        findings.add(table.UNSUPPORTED_VERSION, what="IR version", version=version, known=f"1 to {newest_ir}")
    newest = {"": onnx.defs.onnx_opset_version(), "ai.onnx.ml": onnx.defs.onnx_ml_opset_version()}
    opsets: dict[str, int] = {}
    for entry in model.opset_import:
        domain, opset = normal_domain(entry.domain), entry.version
        if opset < 1 or opset > newest.get(domain, opset):
            what = f"opset of domain {entry.domain}" if domain else "opset"
            known = f"1 to {newest[domain]}" if domain in newest else "those from 1 on"
            findings.add(table.UNSUPPORTED_VERSION, what=what, version=opset, known=known)
        if opsets.get(domain, opset) != opset:
            findings.add(
                table.UNSUPPORTED_VERSION,
                what=f"opset {opset} beside opset",
                version=opsets[domain],
                known="one of a domain",
            )
        opsets[domain] = opset
    if not opsets and version < _FIRST_WITH_OPSETS:
        opsets[""] = 1
    return opsets


def _read_metadata(model: ModelProto) -> Mapping[str, str]:
    found = {text_of(entry.key): text_of(entry.value) for entry in model.metadata_props}
    for name in MODEL_FIELDS:
        text = text_of(getattr(model, name))
        if text:
            found[f"onnx.{name}"] = text
    if model.model_version:
        found["onnx.model_version"] = str(model.model_version)
    return found


def _warn(graph: Graph, findings: Findings) -> None:
    """Report names that several nodes share, and nodes that nothing reads."""
    read = set(graph.outputs)
    n_named: dict[str, int] = {}
    for node in graph.nodes.values():
        read.update(node.reads())
        n_named[node.name] = n_named.get(node.name, 0) + 1
    n_named.pop("", None)
    for name, n_nodes in n_named.items():
        if n_nodes > 1:
            findings.add(table.DUPLICATE_NODE, severity="warning", name=name, n_nodes=n_nodes)
    for node in graph.nodes.values():
        if read.isdisjoint(node.outputs):
            place = place_of_node(node.origin.sources[0], node.op)
            findings.add(table.ISOLATED_NODE, place=place, severity="warning")
