"""Real models through the whole compiler: operators, rewrites, conversions, memory, time, and the error left.

    python bench/models.py                    # every model of bench/zoo.py, host fp32 and ascend910b fp16
    python bench/models.py resnet50_ts        # some of them

Prints Markdown tables. Times are CPU seconds of this process, from the model file to the `.om` file;
`load+save` is `onnx.load` and `onnx.save` of the same file, in the same run. Errors are max|got - want| /
max|want| over all outputs, against onnxruntime with its optimisations off.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from time import process_time

sys.path.insert(0, str(Path(__file__).parents[1]))

import onnx

import gerules
from bench import zoo
from gerules.pipeline import CompiledModel
from gerules.runtime.executor import load_om
from tests.models.oracle import ort_outputs, relative_error

TARGETS = (("host", "fp32"), ("ascend910b", "fp16"))
_MIB = 1 << 20


def main(names: list[str]) -> None:
    """Print one table for each target."""
    gerules.load_rules([])  # the rules are read once a process; no model pays for them
    fusions: dict[str, dict[str, int]] = {}
    for device, precision in TARGETS:
        print(f"\n### {device}, {precision}\n")
        print(
            "| model | operators | after | rewrites | Cast | TransData | clusters | arena MiB | / bound "
            "| compile s | load+save s | ratio | error |"
        )
        print("|---|" + "---:|" * 12)
        for name in names:
            try:
                path = zoo.path(name)
            except zoo.ModelsExtraMissing as missing:
                print(f"{name}: {missing}", file=sys.stderr)
                continue
            row, model = measure(path, device, precision)
            if device == "host":
                fusions[name] = dict(model.summary().fusions)
            print(f"| {name} | " + " | ".join(row) + " |", flush=True)
    print("\n### Rewrites by rule (host, fp32)\n")
    print("| model | rules |\n|---|---|")
    for name, found in fusions.items():
        print(f"| {name} | " + ", ".join(f"{rule} {count}" for rule, count in found.items()) + " |")


def measure(path: Path, device: str, precision: str) -> tuple[list[str], CompiledModel]:
    """Compile one model, run it from its file, and return the cells of its row."""
    feeds = zoo.inputs(path, 1)
    shapes = {key: array.shape for key, array in feeds.items()}
    with tempfile.TemporaryDirectory() as folder:
        started = process_time()
        onnx.save(onnx.load(path), Path(folder) / "copy.onnx")
        plain_s = process_time() - started
        started = process_time()
        model = gerules.compile(path, device=device, precision=precision, input_shapes=shapes)
        model.save(Path(folder) / "m.om")
        compile_s = process_time() - started
        got = load_om(Path(folder) / "m.om").run(feeds)
    want = ort_outputs(path, feeds)
    error = max(relative_error(got[key], want[key]) for key in want)
    summary = model.summary()
    bound = summary.lower_bound_bytes
    cells = [
        str(summary.n_nodes_read),
        str(summary.n_nodes),
        str(summary.n_fusions),
        str(summary.n_casts),
        str(summary.n_transdata),
        str(summary.n_clusters),
        f"{summary.peak_bytes / _MIB:.2f}",
        f"{summary.peak_bytes / bound:.4f}" if bound else "-",
        f"{compile_s:.2f}",
        f"{plain_s:.2f}",
        f"{compile_s / max(plain_s, 1e-3):.1f}",
        f"{error:.1e}",
    ]
    return cells, model


if __name__ == "__main__":
    main(sys.argv[1:] or list(zoo.NAMES))
