"""Plans written as C++ of the Graph Engine's pass interface, one file for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gerules.exporting.operators import all_attributes, placeholder
from gerules.exporting.plan import Captured, Computed, Input, Number, Output, Plan, PlanNode, Source
from gerules.exporting.texts import comment, cpp_value, needed

_ABOUT: Final = (
    "// What is not known, such as a size or a constant, makes `known` false; then a pass does not apply."
)

_HELPERS: Final = """\
TensorDesc InputDesc(const GNode &node, int32_t slot) {
  TensorDesc desc;
  node.GetInputDesc(slot, desc);
  return desc;
}

TensorDesc OutputDesc(const GNode &node, int32_t slot) {
  TensorDesc desc;
  node.GetOutputDesc(slot, desc);
  return desc;
}

std::vector<int64_t> Sizes(const TensorDesc &desc, bool &known) {
  std::vector<int64_t> sizes = desc.GetShape().GetDims();
  for (int64_t size : sizes) {
    known = known && size >= 0;
  }
  return sizes;
}

std::vector<int64_t> Dims(const TensorDesc &desc, bool &known) {
  std::vector<int64_t> sizes = desc.GetShape().GetDims();
  known = known && !(sizes.size() == 1 && sizes[0] == -2);
  return sizes;
}

std::vector<int64_t> Broadcast(const std::vector<std::vector<int64_t>> &shapes, bool &known) {
  size_t rank = 0;
  for (const auto &shape : shapes) {
    rank = std::max(rank, shape.size());
  }
  std::vector<int64_t> found(rank, 1);
  for (size_t place = 0; place < rank; place++) {
    int64_t fixed = 1;
    int64_t open = 0;
    for (const auto &shape : shapes) {
      if (place >= shape.size()) {
        continue;
      }
      int64_t size = shape[shape.size() - 1 - place];
      open += size < 0 ? 1 : 0;
      if (size >= 0 && size != 1) {
        known = known && (fixed == 1 || fixed == size);
        fixed = size;
      }
    }
    known = known && (fixed != 1 || open < 2);
    found[rank - 1 - place] = fixed == 1 && open > 0 ? -1 : fixed;
  }
  return found;
}

std::vector<int64_t> Product(
    const std::vector<int64_t> &one, const std::vector<int64_t> &other, bool &known) {
  if (one.size() < 2 || other.size() < 2) {
    known = false;
    return {};
  }
  std::vector<int64_t> found =
      Broadcast({{one.begin(), one.end() - 2}, {other.begin(), other.end() - 2}}, known);
  found.push_back(one[one.size() - 2]);
  found.push_back(other[other.size() - 1]);
  return found;
}

bool IsFixed(const std::vector<int64_t> &sizes) {
  return std::all_of(sizes.begin(), sizes.end(), [](int64_t size) { return size >= 0; });
}

int64_t Rank(const TensorDesc &desc, bool &known) {
  std::vector<int64_t> sizes = desc.GetShape().GetDims();
  known = known && !(sizes.size() == 1 && sizes[0] == -2);
  return static_cast<int64_t>(sizes.size());
}

int64_t Size(const TensorDesc &desc, int64_t place, bool &known) {
  std::vector<int64_t> sizes = desc.GetShape().GetDims();
  int64_t at = place < 0 ? place + static_cast<int64_t>(sizes.size()) : place;
  if (at < 0 || at >= static_cast<int64_t>(sizes.size()) || sizes[at] < 0) {
    known = false;
    return 0;
  }
  return sizes[at];
}

int64_t Numel(const TensorDesc &desc, bool &known) {
  int64_t found = 1;
  for (int64_t size : Sizes(desc, known)) {
    found *= size;
  }
  return found;
}

double Modulo(double number, double divisor) {
  return number - divisor * std::floor(number / divisor);
}

bool IsStatic(const TensorDesc &desc) {
  bool known = true;
  Sizes(desc, known);
  return known;
}

bool IsConst(const GNode &node, int32_t slot) {
  GNodePtr source = node.GetInDataNodesAndPortIndexs(slot).first;
  AscendString type;
  return source != nullptr && source->GetType(type) == GRAPH_SUCCESS &&
         (type == "Const" || type == "Constant");
}

template <typename T>
std::vector<double> Elements(const Tensor &tensor) {
  const T *data = reinterpret_cast<const T *>(tensor.GetData());
  return std::vector<double>(data, data + tensor.GetSize() / sizeof(T));
}

std::vector<double> ConstElements(const GNode &node, int32_t slot, bool &known) {
  Tensor tensor;
  if (!IsConst(node, slot) ||
      node.GetInDataNodesAndPortIndexs(slot).first->GetAttr("value", tensor) != GRAPH_SUCCESS) {
    known = false;
    return {};
  }
  switch (tensor.GetTensorDesc().GetDataType()) {
    case DT_FLOAT:
      return Elements<float>(tensor);
    case DT_DOUBLE:
      return Elements<double>(tensor);
    case DT_INT32:
      return Elements<int32_t>(tensor);
    case DT_INT64:
      return Elements<int64_t>(tensor);
    case DT_BOOL:
      return Elements<uint8_t>(tensor);
    default:
      known = false;
      return {};
  }
}

double ConstNumber(const GNode &node, int32_t slot, bool &known) {
  std::vector<double> found = ConstElements(node, slot, known);
  known = known && found.size() == 1;
  return known ? found[0] : 0;
}

std::vector<int64_t> ConstNumbers(const GNode &node, int32_t slot, bool &known) {
  std::vector<double> found = ConstElements(node, slot, known);
  return std::vector<int64_t>(found.begin(), found.end());
}

template <typename T>
T AttrOf(const GNode &node, const char *name, bool &known) {
  T value{};
  known = node.GetAttr(name, value) == GRAPH_SUCCESS && known;
  return value;
}

template <typename T>
bool AttrIs(const GNode &node, const char *name, const T &wanted) {
  T value{};
  return node.GetAttr(name, value) == GRAPH_SUCCESS && value == wanted;
}

template <typename T>
void CopyAttr(const GNode &from, const char *name, GNode &to, const char *there) {
  T value{};
  if (from.GetAttr(name, value) == GRAPH_SUCCESS) {
    to.SetAttr(there, value);
  }
}

void CopyAnyAttr(const GNode &from, const char *name, GNode &to) {
  CopyAttr<std::vector<int64_t>>(from, name, to, name);
  CopyAttr<int64_t>(from, name, to, name);
  CopyAttr<float>(from, name, to, name);
  CopyAttr<bool>(from, name, to, name);
  CopyAttr<AscendString>(from, name, to, name);
}

bool Matched(const std::unique_ptr<MatchResult> &match, size_t count, std::vector<GNode> &nodes) {
  for (size_t place = 0; place < count; place++) {
    NodeIo captured;
    if (match->GetCapturedTensor(place, captured) != GRAPH_SUCCESS) {
      return false;
    }
    nodes.push_back(captured.node);
  }
  return true;
}
"""


def write_cpp(plans: Sequence[Plan], source: str) -> str:
    """Return a source file with one class for each plan.

    Args:
        source: Where the rules come from, as a comment says it.
    """
    classes: list[str] = []
    for plan in plans:
        classes += ["", *_class(plan)]
    helpers = needed(_HELPERS, "\n\n", "\n".join(classes))
    lines = [
        f"// {comment(f'Fusion passes made from {source} by gerules; do not edit, change the rules.')}",
        "#include <algorithm>",
        "#include <cmath>",
        "#include <cstdint>",
        "#include <memory>",
        "#include <vector>",
        '#include "es_all_ops.h"',
        '#include "ge/fusion/pass/pattern_fusion_pass.h"',
        "",
        "using namespace ge;",
        "using namespace ge::fusion;",
        "",
        "namespace {",
        *([_ABOUT] if "known" in helpers else []),
        *([helpers] if helpers else []),
        *classes,
        "}  // namespace",
        "",
    ]
    for plan in plans:
        lines.append(f"REG_FUSION_PASS({plan.name}).Stage(CustomPassStage::kAfterInferShape);")
    return "\n".join(lines) + "\n"


def _class(plan: Plan) -> list[str]:
    name = plan.name
    return [
        f"// {comment(plan.doc or plan.rule)}",
        f"class {name} : public PatternFusionPass {{",
        " protected:",
        "  std::vector<PatternUniqPtr> Patterns() override {",
        f'    auto builder = es::EsGraphBuilder("{plan.name}");',
        *_inputs(plan),
        *_nodes(plan.nodes, "n", is_pattern=True),
        f"    auto graph = builder.BuildAndReset({{{_returned(plan.outputs, 'n')}}});",
        "    auto pattern = std::make_unique<Pattern>(std::move(*graph));",
        *(f"    pattern->CaptureTensor({{*n{place}.GetProducer(), 0}});" for place in range(len(plan.nodes))),
        "    std::vector<PatternUniqPtr> patterns;",
        "    patterns.emplace_back(std::move(pattern));",
        "    return patterns;",
        "  }",
        *_requirements(plan),
        "",
        "  GraphUniqPtr Replacement(const std::unique_ptr<MatchResult> &match) override {",
        "    std::vector<GNode> nodes;",
        f"    if (!Matched(match, {len(plan.nodes)}, nodes)) {{",
        "      return nullptr;",
        "    }",
        f'    auto builder = es::EsGraphBuilder("{plan.name}");',
        *_inputs(plan),
        *(["    bool known = true;"] if plan.is_computed else []),
        *_nodes(plan.built, "r", is_pattern=False),
        *(["    if (!known) {", "      return nullptr;", "    }"] if plan.is_computed else []),
        f"    return builder.BuildAndReset({{{_returned(plan.results, 'r')}}});",
        "  }",
        "};",
    ]


def _inputs(plan: Plan) -> list[str]:
    return [f"    auto x{number} = builder.CreateInput({number});" for number in range(plan.n_inputs)]


def _nodes(nodes: Sequence[PlanNode], prefix: str, *, is_pattern: bool) -> list[str]:
    lines: list[str] = []
    for place, node in enumerate(nodes):
        args = [_source(item, prefix, is_pattern=is_pattern) for item in node.inputs]
        # Optional inputs stand before the attributes that have to be given.
        required = node.form.required
        if required:
            args += ["nullptr"] * (node.form.n_inputs - len(args))
        for attr in required:
            value = node.attrs.get(attr.name, placeholder(attr))
            args.append(cpp_value(placeholder(attr) if isinstance(value, Captured | Computed) else value))  # pyright: ignore[reportArgumentType] (a plain value)
        name = f"{prefix}{place}"
        lines.append(f"    auto {name} = es::{node.form.type}({', '.join(args)});")
        lines += _attributes(node, name) if not is_pattern else []
    return lines


def _attributes(node: PlanNode, name: str) -> list[str]:
    lines: list[str] = []
    if node.copies is not None:
        for attr in all_attributes(node.form.type):
            lines.append(f'    CopyAnyAttr(nodes[{node.copies}], "{attr}", *{name}.GetProducer());')
    for attr, value in node.attrs.items():
        if isinstance(value, Captured):
            kind = _CPP_TYPES[value.kind]
            lines.append(
                f'    CopyAttr<{kind}>(nodes[{value.node}], "{value.name}", *{name}.GetProducer(), "{attr}");'
            )
        else:
            lines += [
                "    {",
                f"      auto value = {cpp_value(value)};",
                f'      {name}.GetProducer()->SetAttr("{attr}", value);',
                "    }",
            ]
    return lines


_CPP_TYPES: Final = {
    "int": "int64_t", "dtype": "int64_t", "float": "float", "bool": "bool", "text": "AscendString",
    "list": "std::vector<int64_t>",
}  # fmt: skip


def _source(source: Source, prefix: str, *, is_pattern: bool) -> str:
    match source:
        case None:
            return "nullptr"
        case Input(number=number):
            return f"x{number}"
        case Output(node=node):
            return f"{prefix}{node}"
        case Computed(cpp=cpp):
            return f"builder.CreateScalar(static_cast<float>({cpp}))"
        case Number() if is_pattern:
            return "es::Const(builder)"
        case Number(value=tuple(value)):
            items = ", ".join(str(item) for item in value)
            return (
                f"builder.CreateConst(std::vector<int64_t>{{{items}}}, std::vector<int64_t>{{{len(value)}}})"
            )
        case Number():
            return f"builder.CreateScalar(static_cast<float>({source.number!r}))"


def _returned(sources: Sequence[Source], prefix: str) -> str:
    return ", ".join(_source(item, prefix, is_pattern=False) for item in sources)


def _requirements(plan: Plan) -> list[str]:
    if not plan.requirements:
        return []
    lines = [
        "",
        "  bool MeetRequirements(const std::unique_ptr<MatchResult> &match) override {",
        "    std::vector<GNode> nodes;",
        f"    if (!Matched(match, {len(plan.nodes)}, nodes)) {{",
        "      return false;",
        "    }",
        "    bool known = true;",
    ]
    for item in plan.requirements:
        reason = comment(item.reason)
        lines += [f"    if (!({item.cpp}) || !known) {{", f"      return false;  // {reason}", "    }"]
    return [*lines, "    return known;", "  }"]
