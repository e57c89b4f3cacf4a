"""The table of error codes: every fault gerules can report, with its cause and its remedy.

Families: E1 files and options, E2 switches and run-time inputs, E3 types, shapes and formats,
E4 texts, rules and graphs, E5 operators and engines, E6 memory, E7 running, E8 `.om` files,
E9 gerules itself.
A code never changes its meaning; a code that goes out of use is not given out again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """One kind of fault.

    `message` and `hint` are format strings over the facts given when it is raised; `cause` says in
    general words why it arises. The heading `## E... slug` in `docs/errors.md` explains it at length.
    """

    code: str
    slug: str
    message: str
    cause: str
    hint: str


# ---------------------------------------------------------------- E1: files and options
FILE_NOT_FOUND: Final = ErrorCode(
    "E10001",
    "file-not-found",
    "{path} cannot be read: {reason}",
    "The file does not exist, is a directory, or may not be read.",
    "check the path and the permissions",
)
UNKNOWN_FILE_KIND: Final = ErrorCode(
    "E10002",
    "unknown-file-kind",
    "{path} is no kind of file that can be {verb} here",
    "The name's ending and the first bytes fit no reader, or the ending no writer.",
    "{remedy}",
)
BAD_OPTION: Final = ErrorCode(
    "E10003",
    "bad-option",
    "{option} cannot be {value}: {reason}",
    "An option has a value outside what it accepts.",
    "{remedy}",
)
CANNOT_WRITE: Final = ErrorCode(
    "E10004",
    "cannot-write",
    "{path} cannot be written: {reason}",
    "The folder is missing or read-only, or the disk is full. Nothing was left half-written.",
    "free space or choose another output path",
)
FILE_TOO_LARGE: Final = ErrorCode(
    "E10005",
    "file-too-large",
    "{path} has {size_bytes} bytes; at most {limit_bytes} are read",
    "Texts from outside are bounded, so that a hostile file cannot exhaust the machine.",
    "split the file",
)
UNKNOWN_NODE: Final = ErrorCode(
    "E10006",
    "unknown-node",
    "the model has no node {name}",
    "A node is named by its own name, by a value it makes, or by a node of the model that it came from.",
    "correct the name; `gerules show` prints all of them",
)

PLUGIN_FAILED: Final = ErrorCode(
    "E10007",
    "plugin-failed",
    "the plugin {plugin} of {distribution} failed: {reason}",
    "A package that extends gerules by an entry point cannot be imported, or does not give what its group asks for.",
    "update or remove {distribution}, or set GERULES_PLUGINS=0 to run without plugins",
)
CANNOT_DRAFT: Final = ErrorCode(
    "E10008",
    "cannot-draft",
    "no rule can be drafted from these nodes: {reason}",
    "A rule replaces a region of one graph that nothing leaves and enters again, made of operators whose meaning is known.",
    "{remedy}",
)
PACKAGE_MISSING: Final = ErrorCode(
    "E10009",
    "package-missing",
    "{what} needs the package {package}, which is not installed",
    "Parts that few users need bring packages of their own, so that gerules itself stays small.",
    'pip install "gerules[{extra}]"',
)

# E10010-E10039: model files
NOT_ONNX: Final = ErrorCode(
    "E10010",
    "not-onnx",
    "{path} is not an ONNX model: {reason}",
    "The bytes do not read as an ONNX ModelProto: another kind of file, or a damaged or half-copied one.",
    "export or download the model again",
)
NO_GRAPH: Final = ErrorCode(
    "E10011",
    "no-graph",
    "the model has no graph",
    "The file reads as an ONNX model, but holds no graph to compile.",
    "export the model again",
)
UNSUPPORTED_VERSION: Final = ErrorCode(
    "E10012",
    "unsupported-version",
    "{what} {version} is not supported; {known} are",
    "The model uses a version of ONNX or of an operator domain that the installed onnx package does not know.",
    "install a newer onnx package, or export the model for an older opset",
)
MISSING_DOMAIN: Final = ErrorCode(
    "E10013",
    "missing-domain",
    'the model uses {n_nodes} operators of domain "{domain}" but imports no version of it',
    "Each operator domain that a model uses needs an opset import, which says what its operators mean.",
    "export the model again, or add the opset import",
)
UNDEFINED_TENSOR: Final = ErrorCode(
    "E10014",
    "undefined-tensor",
    "tensor {name} is read but nothing defines it",
    "A node reads, or the graph returns, a name that is no input, no initializer and no node's output.",
    "export the model again; when it was cut out of a larger one, make {name} an input",
)
DUPLICATE_TENSOR: Final = ErrorCode(
    "E10015",
    "duplicate-tensor",
    "tensor {name} is defined more than once",
    "Every tensor of a graph has one definition: an input, an initializer or one output of one node.",
    "rename one of the two",
)
MODEL_CYCLE: Final = ErrorCode(
    "E10016",
    "cycle",
    "nodes depend on each other in a circle: {cycle}",
    "A graph is computed from inputs to outputs; a circle of nodes has no first one.",
    "break the circle, or write it as a Loop",
)
DUPLICATE_NODE: Final = ErrorCode(
    "E10017",
    "duplicate-node-name",
    "{n_nodes} nodes are named {name}",
    "Options and reports that name this node mean all of them.",
    "give nodes names of their own when you want to address one",
)
ISOLATED_NODE: Final = ErrorCode(
    "E10018",
    "isolated-node",
    "nothing reads what this node makes",
    "The node takes no part in any output of the model.",
    "nothing needs to be done: the node is removed",
)
WRONG_COUNT: Final = ErrorCode(
    "E10019",
    "wrong-count",
    "{op} takes {expected} {what}, not {found}",
    "The node does not have the inputs or outputs that its operator has at the model's opset.",
    "export the model again with an opset import that fits its nodes",
)
UNKNOWN_MODEL_ATTRIBUTE: Final = ErrorCode(
    "E10020",
    "unknown-model-attribute",
    "{op} has no attribute {attr} at opset {opset}",
    "The operator does not have the attribute at the model's opset: a typing error, or another version.",
    "{remedy}",
)
MISTYPED_ATTRIBUTE: Final = ErrorCode(
    "E10021",
    "mistyped-attribute",
    "attribute {attr} is {found} where {expected} is wanted",
    "The attribute's value is not of the kind that the operator defines.",
    "export the model again",
)
MISSING_ATTRIBUTE: Final = ErrorCode(
    "E10022",
    "missing-attribute",
    "{op} needs attribute {attr}",
    "The operator has no default for the attribute.",
    "export the model again",
)
BAD_TENSOR: Final = ErrorCode(
    "E10023",
    "bad-tensor",
    "tensor {name} cannot be read: {reason}",
    "The stored bytes do not fit the tensor's shape and element type.",
    "export or download the model again",
)
BAD_EXTERNAL_DATA: Final = ErrorCode(
    "E10024",
    "bad-external-data",
    "the data of tensor {name} cannot be read: {reason}",
    "A model with external data needs its data files beside it, whole, and inside its folder.",
    "put the data files that came with the model into its folder",
)
MODEL_TOO_DEEP: Final = ErrorCode(
    "E10025",
    "model-too-deep",
    "bodies and functions nest more than {limit} deep",
    "Branches within branches, or functions that call functions, are followed to a limit only.",
    "flatten the model",
)
BAD_FUNCTION: Final = ErrorCode(
    "E10026",
    "bad-function",
    "function {name} cannot be expanded: {reason}",
    "A function of the model calls itself, is defined twice, or assumes another opset than the model.",
    "expand functions with onnx.inliner before the compile, or export without them",
)
TOO_MANY_NODES: Final = ErrorCode(
    "E10027",
    "too-many-nodes",
    "the model's functions stand for more than {limit}",
    "Functions that call functions can stand for any number of nodes.",
    "export without functions",
)
BAD_TYPE: Final = ErrorCode(
    "E10028",
    "bad-type",
    "the type of {name} cannot be read: {reason}",
    "A declared shape or element type has no meaning.",
    "export the model again",
)
LEFT_OUT: Final = ErrorCode(
    "E10029",
    "left-out",
    "{what} is not read",
    "A part of the file that gerules does not carry over.",
    "nothing needs to be done for inference",
)
MORE_OF_THE_KIND: Final = ErrorCode(
    "E10030",
    "more-of-the-kind",
    "{n_more} more of {kind}",
    "Faults of one kind are told one by one up to a limit.",
    "repair those that are told, and run again",
)
CANNOT_EXPORT: Final = ErrorCode(
    "E10031",
    "cannot-export",
    "{what} cannot be written as ONNX: {reason}",
    "ONNX has no form for this part of the graph.",
    "{remedy}",
)

# E10035-E10039, E10070-E10079: gears. The first five have the Graph Engine's own numbers.
TOO_FEW_GEARS: Final = ErrorCode(
    "E10035",
    "too-few-gears",
    "{option} has {found} gear; at least {fewest} are needed",
    "A model of one shape needs no gears. The Graph Engine has the same code for it.",
    "give at least {fewest} gears, or fix the shape with --input-shape",
)
TOO_MANY_GEARS: Final = ErrorCode(
    "E10036",
    "too-many-gears",
    "{option} has {found} gears; at most {most} are compiled",
    "Every gear is compiled and planned on its own. The Graph Engine has the same code and the same limit.",
    "give fewer gears, and pad inputs to the next larger one",
)
GEAR_RANKS_DIFFER: Final = ErrorCode(
    "E10037",
    "gear-ranks-differ",
    "{option}: the gear {gear} has {found}, not {wanted}",
    "All gears of a model have a size for each of the same dimensions. The Graph Engine has the same code for it.",
    "give each gear {wanted}, with `;` between gears",
)
GEAR_NOT_POSITIVE: Final = ErrorCode(
    "E10038",
    "gear-not-positive",
    "{option}: {size} in the gear {gear} is no size from 1 to 2**31 - 1",
    "A gear fixes dimensions, and each is a whole number from 1 to 2**31 - 1. The Graph Engine has the same code for it.",
    "give whole numbers from 1 to 2147483647",
)
GEARS_REPEAT: Final = ErrorCode(
    "E10039",
    "gears-repeat",
    "{option} has the gear {gear} twice",
    "Inputs choose a gear by their shapes, so no two may be alike. The Graph Engine has the same code for it.",
    "leave one of them out",
)
GEARS_EXCLUDE: Final = ErrorCode(
    "E10070",
    "gears-exclude",
    "{options} exclude each other",
    "A model has gears of one kind only. The Graph Engine says E10009 here.",
    "{remedy}",
)
ONLY_BATCH_OPEN: Final = ErrorCode(
    "E10071",
    "only-batch-open",
    "dynamic_batch_size does not fit the input {shape}: only its first dimension may be -1",
    "Gears of a batch size fix the first dimension of inputs, and nothing else. The Graph Engine says E10018 here.",
    "fix the other dimensions with --input-shape, or use dynamic_dims",
)
ONLY_IMAGE_OPEN: Final = ErrorCode(
    "E10072",
    "only-image-open",
    "dynamic_image_size does not fit the input {shape}: just its height and width are to be -1",
    "Gears of an image size fix dimensions 2 and 3 of an input of four (NCHW), or 1 and 2 (NHWC). The Graph Engine says E10019 here.",
    "fix the other dimensions with --input-shape, or use dynamic_dims",
)
BAD_GEAR_TEXT: Final = ErrorCode(
    "E10073",
    "bad-gear-text",
    "{option} cannot be {text}: {reason}",
    "Gears are whole numbers with `,` between sizes and `;` between gears. The Graph Engine says E10020 here for images.",
    "write it like {example}",
)
NO_OPEN_BATCH: Final = ErrorCode(
    "E10074",
    "no-open-batch",
    "{option} is given, but no input has a batch of -1",
    "Gears fix what is open, and every input has a fixed first dimension, or none. The Graph Engine says E10031 here.",
    "write --input-shape NAME:-1,... for a dimension that the model leaves open, or leave {option} out",
)
NOTHING_TO_GEAR: Final = ErrorCode(
    "E10075",
    "nothing-to-gear",
    "{option} is given, but no input has a dimension of -1",
    "Gears fix what is open, and the shapes of all inputs are fixed. The Graph Engine says E10040 here.",
    "write -1 in --input-shape for dimensions that the model leaves open, or leave {option} out",
)
GEAR_COUNT_DIFFERS: Final = ErrorCode(
    "E10076",
    "gear-count-differs",
    "dynamic_dims has {found} sizes in a gear, but {shapes} has {n_open} dimensions of -1",
    "A gear has one size for each -1, input by input. The Graph Engine says E10045 and E10046 here.",
    "give {n_open} sizes in each gear, in the order of --input-shape",
)
INPUT_WITHOUT_GEARS: Final = ErrorCode(
    "E10077",
    "input-without-gears",
    "the input {input} ({found}) cannot have gears: it is no tensor of known rank",
    "Each gear has a fixed shape for every input.",
    "give its shape with --input-shape, or compile without gears",
)

# E10040-E10049: input shapes
BAD_SHAPE_TEXT: Final = ErrorCode(
    "E10040",
    "bad-shape-text",
    "{text} is no input shape: {reason}",
    "Input shapes are written `name=1,3,224,224`, several with `;` between them.",
    "write it like data=1,3,224,224;mask=1,128",
)
UNKNOWN_INPUT: Final = ErrorCode(
    "E10041",
    "unknown-input",
    "the model has no input {input}",
    "A shape was given for a name that is none of the model's inputs.",
    "use one of {known}",
)
SHAPE_RANK_DIFFERS: Final = ErrorCode(
    "E10042",
    "shape-rank-differs",
    "{input} has {n_declared} dimensions, and {n_given} were given",
    "A shape has as many numbers as the input has dimensions.",
    "give {n_declared} numbers",
)
SHAPE_CONTRADICTS: Final = ErrorCode(
    "E10043",
    "shape-contradicts",
    "dimension {axis} of {input} is {declared}, not {given}",
    "A dimension that the model fixes cannot be given another size.",
    "give the size the model has",
)
DIM_OUT_OF_RANGE_GIVEN: Final = ErrorCode(
    "E10044",
    "given-dim-out-of-range",
    "{name} cannot be {given}",
    "A dimension is a whole number from 1 to 2**63 - 1.",
    "give a positive size",
)
DIM_BOUND_TWICE: Final = ErrorCode(
    "E10045",
    "dim-bound-twice",
    "{dim} would be {first} and {second} at once",
    "Dimensions of one name have one size in the whole model.",
    "give the same size wherever {dim} stands",
)
UNKNOWN_DIM_NAME: Final = ErrorCode(
    "E10046",
    "unknown-dim-name",
    "no input has a dimension {dim}",
    "A size was given for a name that is no symbolic dimension of an input.",
    "use one of {known}",
)
NO_SIZES_FIT: Final = ErrorCode(
    "E10048",
    "no-sizes-fit",
    "no inputs can be made up with which the model runs: tried were {tried}; {reason}",
    "The model leaves sizes open, and refuses all that were tried.",
    "say sizes with --dim or --input-shape, or give inputs of your own to `gerules run` with --input",
)
CACHE_ENTRY_DAMAGED: Final = ErrorCode(
    "E10050",
    "cache-entry-damaged",
    "entry {key} of the compile cache was damaged, and is deleted: {reason}",
    "Every entry carries a checksum; a file that was cut off or changed is not believed.",
    "{remedy}",
)
CACHE_UNUSABLE: Final = ErrorCode(
    "E10051",
    "cache-unusable",
    "the compile cache in {path} cannot be used: {reason}",
    "The folder is read-only, belongs to somebody else, or the disk is full. The compile itself is not affected.",
    "set GERULES_CACHE_DIR to another folder, or GERULES_CACHE=0 to do without",
)
CACHE_NOT_KEPT: Final = ErrorCode(
    "E10052",
    "cache-not-kept",
    "the result is not kept in the compile cache: {reason}",
    "A result is kept when everything it follows from has a digest, it holds no faults of rules, and it fits.",
    "{remedy}",
)
CACHE_LACKS: Final = ErrorCode(
    "E10053",
    "cache-lacks",
    "the compile cache has the offline model and the reports of this compile, but not {what}: for these it was compiled again",
    "An entry holds the offline model and the reports. Graphs of single stages are made by compiling.",
    "nothing has to be done",
)
NOT_MINDIR: Final = ErrorCode(
    "E10060",
    "not-mindir",
    "{path} is not a MindIR model: {reason}",
    "The bytes do not read as a MindIR ModelProto: another kind of file, an encrypted one, or a damaged one.",
    'export the model again with file_format="MINDIR" and without encryption',
)
MINDIR_OPERATOR: Final = ErrorCode(
    "E10061",
    "mindir-operator",
    "MindSpore's operator {op} is not read",
    "Operators of MindSpore become those of ONNX; of this one it is not known how.",
    "export the model as ONNX, or write the part in other operators",
)
MINDIR_NODE: Final = ErrorCode(
    "E10062",
    "mindir-node",
    "{op} cannot be read: {reason}",
    "The arguments or attributes of the node are not those that its operator has, or of a form that is not read.",
    "export the model for inference again; a form that is not read can be exported as ONNX",
)

# E10080-E10089: models of torch
NOT_EXPORTED: Final = ErrorCode(
    "E10080",
    "not-exported",
    "torch cannot export {model}: {reason}",
    "Modules are read through torch's own ONNX exporters, which do not take every operator, nor control flow that depends on values.",
    "write that part of the model in other operators, or export it to ONNX yourself with a translation of the operator",
)
NO_EXAMPLE: Final = ErrorCode(
    "E10081",
    "no-example",
    "{model} has to be traced, and there are no inputs to trace it with",
    "A module does not say the shapes and types of its inputs; one run with examples shows them.",
    "give example_inputs=(tensor, ...); for a TorchScript file with inputs of float32, input_shapes or --input-shape are enough",
)
BAD_EXAMPLE: Final = ErrorCode(
    "E10082",
    "bad-example",
    "{model} cannot be traced with what is given: {reason}",
    "Example inputs are tensors or arrays; open dimensions are named as torch.export takes them.",
    "{remedy}",
)
NO_MODEL: Final = ErrorCode(
    "E10083",
    "no-model",
    "an object of type {kind} is no model",
    "A model is a file, a graph, an ONNX model in memory, a torch module, a TorchScript module or an exported program.",
    "give a path, a Graph, an onnx.ModelProto, a torch.nn.Module, a torch.jit.ScriptModule or a torch.export.ExportedProgram",
)
NOT_TORCH: Final = ErrorCode(
    "E10084",
    "not-torch",
    "{path} is no TorchScript file and no exported program: {reason}",
    "Files of torch.jit.save and torch.export.save are read. Files of torch.save hold Python objects, whose reading runs code.",
    "{remedy}",
)
EXAMPLES_NOT_TAKEN: Final = ErrorCode(
    "E10085",
    "examples-not-taken",
    "{model} is not traced, so it takes no example inputs and no dynamic shapes",
    "Only models of torch are traced; other files say the types of their inputs themselves.",
    "leave them out; sizes that the model leaves open are given by input_shapes",
)
TRAINING_OPERATOR: Final = ErrorCode(
    "E10086",
    "training-operator",
    "{op} of {model} runs in training mode",
    "Normalization by the statistics of the batch, with running ones beside it, and dropout that drops are training; torch's exporters would write them for inference, with other numbers.",
    "call .eval() on the module before it is exported or traced, and give training=False to functions",
)
STATE_CHANGES: Final = ErrorCode(
    "E10087",
    "state-changes",
    "{model} changes its own tensors {names} in each run",
    "A compiled model computes outputs of inputs and keeps nothing from run to run; the changes would be lost.",
    'make them inputs and outputs of forward, or leave the change out for inference; torch.compile(backend="gerules") keeps it',
)

# E10090-E10099: the backend of torch.compile
UNKNOWN_BACKEND_OPTION: Final = ErrorCode(
    "E10090",
    "unknown-backend-option",
    "the backend of torch.compile has no option {name}",
    "Options carry the names that gerules.compile has for them, where they make sense for a graph of torch.",
    "use one of {known}",
)
RUNS_EAGERLY: Final = ErrorCode(
    "E10091",
    "runs-eagerly",
    "graph {number} is run by torch and not compiled: {reason}",
    "A graph has an operator that torch cannot export, or that gerules cannot compile. The other graphs are not affected.",
    'nothing has to be done for right results; with the option fallback="error" it is an error',
)
NEEDS_GRADIENTS: Final = ErrorCode(
    "E10092",
    "needs-gradients",
    "a graph is run by torch and not compiled: it needs gradients",
    "Graphs are compiled for inference. With gradients on, every parameter that requires them makes a graph for training.",
    "call the model under torch.no_grad() or torch.inference_mode()",
)
VERIFY_FAILED: Final = ErrorCode(
    "E10093",
    "verify-failed",
    "output {output} of graph {number} is {error} away from torch, and {rtol} is allowed",
    "The first run of each compiled model was compared with torch, as verify_rtol asks for.",
    "raise verify_rtol for a lower precision; gerules bisect finds the rule where it is no rounding",
)
UNDECLARED_GEAR: Final = ErrorCode(
    "E10094",
    "gear-not-declared",
    "dimension {dim} of argument {argument} is {size}, which is none of its gears {gears}",
    "A tensor with gears has these sizes and no others.",
    "give an input of one of these sizes, or declare more gears",
)

# E10110-E10119: TorchAir's face
UNKNOWN_CONFIG_FIELD: Final = ErrorCode(
    "E10110",
    "unknown-config-field",
    "there is no {path}",
    "A CompilerConfig has TorchAir's fields; a name that is none of them would be set in vain.",
    "use one of {known}",
)
BAD_CONFIG_VALUE: Final = ErrorCode(
    "E10111",
    "bad-config-value",
    "{path} cannot be {value}",
    "Each field of a CompilerConfig takes certain values, or values of one kind.",
    "allowed: {allowed}",
)
CONFIG_NOT_OFFERED: Final = ErrorCode(
    "E10112",
    "config-not-offered",
    "{path} cannot be {value} here: {reason}",
    "TorchAir has this for a device, or for several processes; a value that would change nothing is not taken.",
    "leave it at {default}",
)
CONFIG_CONTRADICTS: Final = ErrorCode(
    "E10113",
    "config-contradicts",
    "{fields} say different things",
    "Two fields of a CompilerConfig decide the same.",
    "set one of them",
)
NOT_CONVERTING: Final = ErrorCode(
    "E10114",
    "not-converting",
    "{op} can be made inside of a converter only",
    "Functions of torchair.ge make operators of the graph that is being converted, and there is none.",
    "call it in a function under register_fx_node_ge_converter",
)
BAD_DIM_GEARS: Final = ErrorCode(
    "E10115",
    "bad-dim-gears",
    "dimension {dim} cannot have the gears {sizes}: {reason}",
    "Gears are 2 to 100 different sizes from 2 for a dimension, with at most 100 combinations.",
    "declare gears within these bounds, once for each input",
)
NOT_REGISTERED: Final = ErrorCode(
    "E10116",
    "not-registered",
    "{what} cannot be registered: {reason}",
    "Converters belong to one overload of an operator; a replacement is two functions of the same tensors, traced with example inputs.",
    "give such an operator, or such functions",
)

# E21001-E21029: fusion switch files
SWITCH_FILE_EMPTY: Final = ErrorCode(
    "E21001",
    "switch-file-empty",
    "the fusion switch file {path} says nothing: {reason}",
    "The file does not exist, cannot be read, or holds no switch. The Graph Engine has the same code for it.",
    "give a file of lines like `ConvBatchnormFusionPass:off`, or the JSON form",
)
BAD_JSON: Final = ErrorCode(
    "E21002",
    "bad-json",
    "this is no JSON: {reason}",
    "A file that begins with a brace is read as JSON, and its text stops following the format here.",
    "correct the text; commas stand between members, and keys and values in double quotes",
)
SWITCH_FILE_KEY: Final = ErrorCode(
    "E21003",
    "switch-file-key",
    "{what} cannot stand in {where}: {reason}",
    "The JSON form of a fusion switch file has fixed keys: Switch, Priority and ExceptionalPassOfO1Level; below the first two GraphFusion and UBFusion; below these, under Priority, Top, Main and Down.",
    "{remedy}",
)
SWITCH_VALUE: Final = ErrorCode(
    "E21004",
    "switch-value",
    "{name} cannot be switched to {value}",
    "A switch of a fusion switch file is on or off, in lower-case letters. The Graph Engine says E20003 here.",
    "write {form}",
)
SWITCHED_TWICE: Final = ErrorCode(
    "E21005",
    "switched-twice",
    "{name} comes twice in {where}",
    "A fusion switch file names each pass once in a section. The Graph Engine says E20003 here.",
    "remove one of the two",
)
SWITCH_PRIORITY: Final = ErrorCode(
    "E21006",
    "switch-priority",
    "the priority of {name} cannot be {value}: {reason}",
    "Priorities are whole numbers in quotes. Each level has two ranges, one for passes of one's own and one for built-in ones: Top 0-999 and 3000-3999, Main 1000-1999 and 4000-4999, Down 2000-2999 and 5000-5999.",
    "give a number of a range of {level}",
)
SWITCH_WITHOUT_RULE: Final = ErrorCode(
    "E21010",
    "switch-without-rule",
    "nothing follows from {name}: {reason}",
    "A fusion switch file names something that no rule stands for, as a rule's name, a rule set or an alias.",
    "correct the name, or leave it: the rest of the file counts",
)
SWITCHED_OFF_HERE_ONLY: Final = ErrorCode(
    "E21011",
    "switched-off-here-only",
    "{name}: off here, always on in the Graph Engine",
    "The Graph Engine never switches some passes off, whatever the switch file says. gerules does as the file says.",
    "remove the switch where results must agree with the Graph Engine pass by pass",
)

# ---------------------------------------------------------------- E3: types, shapes and formats
TYPE_CONTRADICTS: Final = ErrorCode(
    "E30001",
    "type-contradicts",
    "{node} ({op}) makes {value} {inferred}, but the model declares {declared}",
    "What the operator makes of its inputs and what the model declares for the value cannot both hold.",
    "remove the declared type of {value} or correct what {node} reads ({inputs})",
)
SHAPES_DO_NOT_FIT: Final = ErrorCode(
    "E30002",
    "shapes-do-not-fit",
    "{node} ({op}): {reason} (inputs {inputs})",
    "The operator is not defined for inputs of these shapes.",
    "correct the shapes that reach {node}",
)
BAD_ATTRIBUTE: Final = ErrorCode(
    "E30003",
    "bad-attribute",
    "{node} ({op}): attribute {attr} {reason}",
    "An attribute is missing, has another kind of value than its operator declares, or is out of range.",
    "see the operator's description for the values of {attr}",
)
WRONG_INPUTS: Final = ErrorCode(
    "E30004",
    "wrong-inputs",
    "{node} ({op}) {reason}",
    "A node has too few or too many inputs or outputs, or lacks one that is required.",
    "give the inputs the operator takes at opset {opset}",
)
TYPE_NOT_ACCEPTED: Final = ErrorCode(
    "E30005",
    "type-not-accepted",
    "{node} ({op}) cannot read {found} as {param}: {reason}",
    "The operator is not defined for inputs of this type, or two inputs that must have one type differ.",
    "insert a Cast before {node}",
)
DIM_OUT_OF_RANGE: Final = ErrorCode(
    "E30006",
    "dim-out-of-range",
    "{node} ({op}): {reason}",
    "A dimension is negative or larger than a tensor can be.",
    "correct the shapes or the attributes of {node}",
)
INFERENCE_FAILED: Final = ErrorCode(
    "E30007",
    "inference-failed",
    "{node} ({op}): {reason} (inputs {inputs})",
    "onnx's own inference rejects the node.",
    "correct the inputs and attributes of {node}",
)
BODY_DOES_NOT_FIT: Final = ErrorCode(
    "E30008",
    "body-does-not-fit",
    "{node} ({op}): {reason}",
    "A body has other inputs or outputs than the node around it gives and takes.",
    "let the body take and return what {node} passes and returns",
)
LAYOUT_DIFFERS: Final = ErrorCode(
    "E30012",
    "layout-differs",
    "{node} ({op}): {reason} (inputs {inputs}), but input {input} has the axes that fit, in another order",
    "A model mixes layouts: images with channels last meet an operator that takes them second, or a matrix lies the other way round.",
    "insert a Transpose with perm={perm} before input {input} of {node}",
)

# ---------------------------------------------------------------- E4: texts, rules and graphs
SYNTAX: Final = ErrorCode(
    "E40001",
    "syntax",
    "{found} does not fit here",
    "The text does not follow the grammar.",
    "{expected}",
)
UNDEFINED_NAME: Final = ErrorCode(
    "E40003",
    "undefined-name",
    "{name} is not defined",
    "A name is used that nothing above it defines.",
    "define it above its first use",
)

BAD_INDENTATION: Final = ErrorCode(
    "E40004",
    "bad-indentation",
    "{reason}",
    "Blocks are made by indentation, with spaces, one width for all lines of a block.",
    "{remedy}",
)
NOT_UTF8: Final = ErrorCode(
    "E40005",
    "not-utf8",
    "{path} is not UTF-8 text (byte {at_byte})",
    "Texts are read as UTF-8, whatever the machine's own encoding.",
    "save the file as UTF-8",
)
NESTED_TOO_DEEPLY: Final = ErrorCode(
    "E40006",
    "nested-too-deeply",
    "this is nested deeper than {limit} levels",
    "Brackets and operators inside each other are bounded, so that a hostile text cannot exhaust the stack.",
    "name an inner part on a line of its own",
)

DEFINED_TWICE: Final = ErrorCode(
    "E40007",
    "defined-twice",
    "{name} is defined twice",
    "One scope gives the same name to two things, so that neither can be meant by it.",
    "rename one of them",
)
NOT_ONE_GRAPH: Final = ErrorCode(
    "E40008",
    "not-one-graph",
    "the text holds {found} graphs where one is expected",
    "A graph text is one `graph NAME:` block; bodies stand inside the nodes they belong to.",
    "keep one graph in the file",
)
NO_RETURN: Final = ErrorCode(
    "E40009",
    "no-return",
    "the graph does not end in a return",
    "Without `return` a graph has no outputs, and everything in it is dead.",
    "end the block with `return name, ...`",
)
AFTER_RETURN: Final = ErrorCode(
    "E40010",
    "after-return",
    "nothing may follow the return of a graph",
    "`return` ends a graph.",
    "move the line above the return",
)
CAPTURE_OUTSIDE_BODY: Final = ErrorCode(
    "E40011",
    "capture-outside-body",
    "a capture stands only in the body of a node",
    "`capture` takes a value of the graph around; the outermost graph has none around it.",
    "declare it as an input",
)
UNKNOWN_FORMAT: Final = ErrorCode(
    "E40012",
    "unknown-format",
    "{name} is no storage format",
    "A type names a format that gerules does not know.",
    "use one of {known}",
)
BAD_CONSTANT: Final = ErrorCode(
    "E40014",
    "bad-constant",
    "this constant cannot be read: {reason}",
    "The elements do not fit the declared type, or were left out, or lie in a file that is not there.",
    "correct the elements or the type; `gerules show MODEL -o FILE.graph` writes a text with all constants",
)

# ---------------------------------------------------------------- E6: memory and schedule
OUT_OF_MEMORY: Final = ErrorCode(
    "E60003",
    "out-of-memory",
    "the plan needs {peak} bytes but the arena holds {limit}",
    "More bytes are alive at one step than the limit allows, or no placement was found that fits.",
    "shrink the batch or the shapes of the inputs, or pass --memory-limit if the device has more",
)
BAD_LIFETIME: Final = ErrorCode(
    "E60004",
    "bad-lifetime",
    "value {id} cannot be planned: {reason}",
    "A lifetime ends before it starts, has a negative size, or its id is given twice.",
    "give each value one lifetime with first <= last and a size of at least 0",
)
BAD_ALIGNMENT: Final = ErrorCode(
    "E60005",
    "bad-alignment",
    "{align} is no alignment",
    "Offsets are kept at multiples of the alignment, which has to be a positive number of bytes.",
    "give a positive number of bytes, such as 512",
)
BAD_MEMORY_PLAN: Final = ErrorCode(
    "E60006",
    "bad-memory-plan",
    "the memory plan cannot be read: {reason}",
    "The JSON is broken, lacks a field, or its values are out of range.",
    "write the plan again from the compiler",
)
BAD_ALIAS: Final = ErrorCode(
    "E60007",
    "bad-alias",
    "value {id} cannot share a buffer: {reason}",
    "Values that share a buffer must each have a lifetime and may not be in two minds about it.",
    "name only planned values in aliases and in-place pairs",
)
BAD_TASK: Final = ErrorCode(
    "E60020",
    "bad-task",
    "task {id} cannot be scheduled: {reason}",
    "A task id or a written value is given twice, or a size or a cost is negative.",
    "give each task its own id and each value one writer",
)
NOT_TOPOLOGICAL: Final = ErrorCode(
    "E60021",
    "not-topological",
    "task {id} stands before task {needs}, which it depends on",
    "Tasks are scheduled from a topological order; a cycle has none.",
    "put each task after all it depends on, and break cycles",
)
TOO_MANY_STREAMS: Final = ErrorCode(
    "E60022",
    "too-many-streams",
    "the schedule needs {needed} streams but the device has {limit}",
    "Labels and independent engines each ask for a stream of their own.",
    "use fewer stream labels, or lower the parallelism of the engines",
)
STREAM_OPTIONS_CONFLICT: Final = ErrorCode(
    "E60023",
    "stream-options-conflict",
    "a single stream cannot be combined with {other}",
    "Single-stream mode puts every task on stream 0; labels and parallel streams ask for the opposite.",
    "drop single-stream mode or drop {other}",
)

# ---------------------------------------------------------------- E8: .om files
NOT_AN_OM: Final = ErrorCode(
    "E80001",
    "not-an-om",
    "the file begins with {found}, not with IMOD",
    "The file is no offline model, or its first bytes are damaged.",
    "give a file that atc or gerules wrote",
)
OM_TRUNCATED: Final = ErrorCode(
    "E80002",
    "om-truncated",
    "{part} needs {need_bytes} bytes but {have_bytes} are left",
    "The file ends early, for example after a copy that was cut off.",
    "copy or build the file again",
)
OM_SIZE_MISMATCH: Final = ErrorCode(
    "E80003",
    "om-size-mismatch",
    "the header speaks of {header_bytes} bytes but the file has {file_bytes}",
    "Bytes are missing at the end, or something was appended.",
    "copy or build the file again",
)
OM_BAD_TABLE: Final = ErrorCode(
    "E80004",
    "om-bad-table",
    "partition table {block}: {reason}",
    "The table that says where each part of the file lies contradicts itself.",
    "the file is damaged: build it again",
)
OM_BAD_HEADER: Final = ErrorCode(
    "E80005",
    "om-bad-header",
    "header field {field} is {found}; {expected}",
    "A field of the 256 byte header has a value no reader can follow.",
    "the file is damaged, or newer than gerules knows",
)
OM_ENCRYPTED: Final = ErrorCode(
    "E80006",
    "om-encrypted",
    "the model is encrypted",
    "atc was given a key; without it the parts of the file cannot be read.",
    "build the model without encryption",
)
OM_UNKNOWN_PARTITION: Final = ErrorCode(
    "E80007",
    "om-unknown-partition",
    "partition table {block} has type {found}; types go up to 31",
    "The table is damaged, or the file is newer than gerules knows.",
    "build the file again",
)
OM_NO_MODEL: Final = ErrorCode(
    "E80008",
    "om-no-model",
    "there is no model in it: {found}",
    "A flow model, a bundle or a file for another device keeps its graph elsewhere.",
    "{remedy}",
)
OM_BAD_MESSAGE: Final = ErrorCode(
    "E80009",
    "om-bad-message",
    "{part} is no valid {message}: {reason}",
    "The bytes do not decode as the protobuf message that belongs there.",
    "the file is damaged: build it again",
)
OM_BAD_GRAPH: Final = ErrorCode(
    "E80010",
    "om-bad-graph",
    "graph {graph}: {reason}",
    "Operators and edges of the stored graph contradict each other.",
    "the file is damaged: build it again",
)
OM_BAD_WEIGHTS: Final = ErrorCode(
    "E80011",
    "om-bad-weights",
    "constant {name}: {reason}",
    "A constant points outside the weights, or its byte count does not fit its shape.",
    "the file is damaged: build it again",
)
OM_BAD_INTERFACE: Final = ErrorCode(
    "E80012",
    "om-bad-interface",
    "MODEL_INOUT_INFO: {reason}",
    "The description of inputs and outputs contradicts itself.",
    "the file is damaged: build it again",
)
OM_BAD_ATTRIBUTE: Final = ErrorCode(
    "E80013",
    "om-bad-attribute",
    "attribute {name} is {found}; expected {expected}",
    "An attribute is missing or has another kind of value than its reader needs.",
    "the file is damaged, or another tool wrote it",
)
OM_BAD_COMPRESSION: Final = ErrorCode(
    "E80014",
    "om-bad-compression",
    "attribute names are compressed, but {reason}",
    "om_compress_version is set and the tables that belong to it do not fit.",
    "build the file without compression of attributes",
)
OM_NO_NUMBER: Final = ErrorCode(
    "E80020",
    "om-no-number",
    "{dtype} has no number in .om files",
    "The file format has no code for this element type.",
    "cast it to a type the device has",
)
OM_CANNOT_HOLD: Final = ErrorCode(
    "E80021",
    "om-cannot-hold",
    "{what} cannot be stored: {reason}",
    "A value of the model does not fit the file format.",
    "change the model, or report it if gerules made the value",
)
OM_PART_TOO_LARGE: Final = ErrorCode(
    "E80022",
    "om-part-too-large",
    "{part} has {size_bytes} bytes; at most {limit_bytes} can be stored",
    "Protobuf messages end at 2 GiB, parts other than weights and kernels at 4 GiB.",
    "keep large attributes as constants, or split the model",
)
OM_NOT_RUNNABLE: Final = ErrorCode(
    "E80030",
    "om-not-runnable",
    "the model cannot be run here: {reason}",
    "Only models that gerules wrote say in their files what their operators compute.",
    "compile the model with gerules from its source",
)
OM_BAD_PLACE: Final = ErrorCode(
    "E80031",
    "om-bad-place",
    "{what} lies at {place}, which {reason}",
    "An offset or a size in the file does not fit the memory that the file asks for. It is damaged or made up.",
    "compile the model again",
)
OM_BAD_ORDER: Final = ErrorCode(
    "E80032",
    "om-bad-order",
    "operator {op} {reason}",
    "The order of operators, tasks and events in the file is none in which it could run.",
    "compile the model again",
)
OM_BAD_NODE: Final = ErrorCode(
    "E80033",
    "om-bad-node",
    "operator {op}: {reason}",
    "What the file says of an operator beside its edges cannot be read.",
    "compile the model again",
)

OM_BAD_GEARS: Final = ErrorCode(
    "E80034",
    "om-bad-gears",
    "the gears cannot be told: {reason}",
    "The table of gears, the branches and the inputs of the file contradict each other.",
    "compile the model again",
)

BAD_LITERAL: Final = ErrorCode(
    "E40020",
    "bad-literal",
    "{text} {reason}",
    "A number or a text is written that has no value.",
    "write a value that fits",
)
LANGUAGE_VERSION: Final = ErrorCode(
    "E40021",
    "language-version",
    "version {version} of the rule language is not known; this reads version {known}",
    "A rule file names the version of the language it was written for.",
    "install a newer gerules, or write `gerules {known}`",
)
LAYOUT_CHANGES_MEANING: Final = ErrorCode(
    "E40023",
    "layout-changes-meaning",
    "the layout of {path} is left as it is: it would not say the same in another",
    "The formatter reads what it wrote, and gives it up when it reads otherwise. That is a defect of gerules.",
    "report the file; nothing was written",
)
MISPLACED_PART: Final = ErrorCode(
    "E40101",
    "misplaced-part",
    "{part} cannot stand here: {reason}",
    "The grammar allows the part, but here it has no meaning, or two.",
    "{remedy}",
)
UNKNOWN_DTYPE: Final = ErrorCode(
    "E40102",
    "unknown-dtype",
    "{name} is no element type",
    "Element types have short names; a variable for an element type begins with a capital letter.",
    "{remedy}",
)

UNKNOWN_PHASE: Final = ErrorCode(
    "E40050",
    "unknown-phase",
    "{name} is no phase and no pipeline",
    "A phase is named that no rule file declares.",
    "use one of {known}",
)
UNKNOWN_STAGE: Final = ErrorCode(
    "E40051",
    "unknown-stage",
    "{name} is no stage of this compile",
    "A stage is a phase of the pipeline, or one of the compiler's own steps.",
    "use one of {known}",
)
UNKNOWN_RULE: Final = ErrorCode(
    "E40052",
    "unknown-rule",
    "there is no rule {name}",
    "A rule is named by its name or by an alias.",
    "correct the name; `gerules rules list` prints all of them",
)
COMPILE_STOPPED: Final = ErrorCode(
    "E40053",
    "compile-stopped",
    "there is no offline model: the compile stopped after {stage}",
    "A compile that was told to stop early has graphs, and nothing to run or to write.",
    "compile without stop_after",
)

# ---------------------------------------------------------------- E5: operators and engines
OPERATOR_NOT_SUPPORTED: Final = ErrorCode(
    "E50001",
    "operator-not-supported",
    "OpType {op} not supported ({n_nodes} nodes): {reason}",
    "No operator of this name exists at the model's opset, or nothing on the device can run it.",
    "{remedy}",
)

# E50010-E50049: devices, precision, formats, engines
UNKNOWN_DEVICE: Final = ErrorCode(
    "E50010",
    "unknown-device",
    "there is no device {device}",
    "Devices are declared in rule files; no file that was read declares this one.",
    "use one of {known}, or give the file that declares it",
)
UNKNOWN_PORT: Final = ErrorCode(
    "E50011",
    "unknown-port",
    "{op} has no input {port}",
    "A line of a `formats on` table names the inputs of its operator, as its `define` or schema does.",
    "use {known}",
)
BAD_DEVICE_SETTING: Final = ErrorCode(
    "E50012",
    "bad-device-setting",
    "{setting} cannot be so: {reason}",
    "A device sets a number, a text or a list of texts; costs are numbers above zero.",
    "correct the value",
)
UNKNOWN_ENGINE: Final = ErrorCode(
    "E50013",
    "unknown-engine",
    "the device {device} has no engine {engine}",
    "A rule or an option places a node on an engine that the device does not have.",
    "use one of {known}",
)
UNKNOWN_PRECISION: Final = ErrorCode(
    "E50014",
    "unknown-precision",
    "{mode} is no precision mode",
    "The precision modes are those gerules knows, whatever the device.",
    "use one of {known}",
)
UNKNOWN_KEEP: Final = ErrorCode(
    "E50015",
    "unknown-keep",
    "{name} names no node of the model",
    "What keeps its element type is named by the model's own node names, or as `OpType::Name`.",
    "correct the name",
)
FORMAT_NOT_TAKEN: Final = ErrorCode(
    "E50016",
    "format-not-taken",
    "no kernel of {device} runs {op} on {types}",
    "A rule would make an operator whose operands lie in storage formats that none of its kernels takes.",
    "convert the operands with ge::TransData, or add a line to the device's table of formats",
)

# ---------------------------------------------------------------- E2: switches and run-time inputs
# E20001-E20029: inputs at run time
INPUT_MISSING: Final = ErrorCode(
    "E20001",
    "input-missing",
    "input {name} ({type}) is not given",
    "A model runs only when each of its inputs is given, except those that have a default.",
    "give an array under this name",
)
INPUT_UNKNOWN: Final = ErrorCode(
    "E20002",
    "input-unknown",
    "the model has no input {name}; it has {known}",
    "An array is given under a name that no input of the model has.",
    "use the names of the inputs, or leave the array out",
)
INPUT_DTYPE: Final = ErrorCode(
    "E20003",
    "input-dtype",
    "input {name} is {found} where {expected} is wanted",
    "The element types of inputs are fixed when a model is compiled; nothing is converted silently.",
    "convert the array before the run",
)
INPUT_SHAPE: Final = ErrorCode(
    "E20004",
    "input-shape",
    "input {name} has shape {found} where {expected} is wanted",
    "The array has another rank than the input, or another size along a dimension that is fixed.",
    "reshape or pad the array, or compile the model for this shape",
)
INPUT_DIM_DISAGREES: Final = ErrorCode(
    "E20005",
    "input-dim-disagrees",
    "dimension {dim} is {found} in input {name} but {other_size} in {other}",
    "Dimensions of one name have one size in a run.",
    "give inputs that belong together",
)
INPUT_KIND: Final = ErrorCode(
    "E20006",
    "input-kind",
    "input {name} is {found} where {expected} is wanted",
    "Tensors are given as arrays, sequences as lists of arrays, absent optionals as None.",
    "give the value in the form the type asks for",
)

NOTHING_FINITE: Final = ErrorCode(
    "E20007",
    "nothing-finite",
    "no output of {of} holds a finite number, so nothing can be compared",
    "Every element is NaN or infinite: from the inputs, from the weights, or by overflow on the way.",
    "give inputs for which the model gives numbers",
)
SHAPE_NOT_COMPILED: Final = ErrorCode(
    "E20008",
    "shape-not-compiled",
    "the model was not compiled for {found}; it was for {compiled}",
    "A compiled model runs in the shapes that it was planned for: one, or one of its gears.",
    "{remedy}",
)

# ---------------------------------------------------------------- E7: running
NO_KERNEL: Final = ErrorCode(
    "E70001",
    "no-kernel",
    "operator {op} cannot be run at opset {opset}",
    "Neither gerules nor onnx.reference has a kernel for it.",
    "define it in a rule file, or decompose it before running",
)
KERNEL_REFUSED: Final = ErrorCode(
    "E70002",
    "kernel-refused",
    "operator {op} refuses its inputs: {reason}",
    "Shapes, types, attributes or values of the inputs do not fit the operator, or memory ran out.",
    "check the inputs against the operator's specification",
)
RESULT_DOES_NOT_FIT: Final = ErrorCode(
    "E70003",
    "result-does-not-fit",
    "operator {op} gives {found} where {planned} was planned",
    "The place for a result has the shape and type that were inferred; the computed ones differ.",
    "compile again for the shapes the model is run with",
)
RUN_TOO_DEEP: Final = ErrorCode(
    "E70004",
    "run-too-deep",
    "operator {op} is defined through bodies more than {limit} deep",
    "Bodies and definitions nest without end, or an operator's definition uses the operator itself.",
    "correct the definition, or flatten the model",
)
LOOP_DOES_NOT_STOP: Final = ErrorCode(
    "E70005",
    "loop-does-not-stop",
    "operator {op} still runs after {limit} turns",
    "The condition of a loop without a trip count never becomes false.",
    "give the loop a trip count, or correct its condition",
)
BODY_GIVES_TOO_LITTLE: Final = ErrorCode(
    "E70006",
    "body-gives-too-little",
    "operator {op} cannot use its body: {reason}",
    "A body takes or gives another number of values than its node needs, or a value it needs is absent.",
    "check the model",
)
NO_ARENA: Final = ErrorCode(
    "E70007",
    "no-arena",
    "the model needs {size_bytes} bytes of memory; {reason}",
    "The arena of a model is allocated in one piece when the model is loaded.",
    "free memory, raise the limit, or compile for smaller shapes",
)

# E71000-E71019: what a script asks of gerules.compat.acl; the script gets pyACL's number, the message is kept
ACL_ARGUMENT: Final = ErrorCode(
    "E71001",
    "acl-argument",
    "{argument} is {value}: {reason}",
    "A call of pyACL got an argument that it does not take.",
    "{remedy}",
)
ACL_SEQUENCE: Final = ErrorCode(
    "E71002",
    "acl-sequence",
    "{reason}",
    "Calls of pyACL come in an order: init, set_device, load, execute, unload, reset_device, finalize.",
    "{remedy}",
)
ACL_HANDLE: Final = ErrorCode(
    "E71003",
    "acl-handle",
    "{value} is no {kind}: {reason}",
    "pyACL hands out integers; each stands for one thing of one kind, from its create call to its destroy call.",
    "keep what {maker} returned, and do not use it after it was destroyed",
)
ACL_POINTER: Final = ErrorCode(
    "E71004",
    "acl-pointer",
    "{argument} {address} is no {expected}: {reason}",
    "Every address is looked up among the memory that malloc, malloc_host, bytes_to_ptr and numpy_to_ptr gave out.",
    "{remedy}",
)
ACL_SIZE: Final = ErrorCode(
    "E71005",
    "acl-size",
    "{what} takes {need_bytes} bytes; there are {have_bytes}",
    "A copy, a buffer or a view would reach over the end of its memory. Nothing was read or written.",
    "allocate at least {need_bytes} bytes, or ask for fewer",
)
ACL_MEMORY: Final = ErrorCode(
    "E71006",
    "acl-memory",
    "{size_bytes} bytes cannot be allocated: {reason}",
    "The memory of this machine stands in for the device's.",
    "free what is not needed any more",
)
ACL_DATASET: Final = ErrorCode(
    "E71007",
    "acl-dataset",
    "the {side} data set does not fit {model}: {reason}",
    "A data set has one buffer for each input or output of the model, in the model's order.",
    "{remedy}",
)
ACL_NOT_DYNAMIC: Final = ErrorCode(
    "E71008",
    "acl-not-dynamic",
    "{model} has no {kind} to choose",
    "Only a model that was compiled with gears of a kind lets the caller choose one.",
    "{remedy}",
)
ACL_NO_GEAR: Final = ErrorCode(
    "E71009",
    "acl-no-gear",
    "{found} is no {kind} of {model}; it was compiled for {known}",
    "A model with gears runs the sizes that it was compiled for, and no others.",
    "choose one of them, or compile the model with the one that is wanted",
)
ACL_CALLBACK: Final = ErrorCode(
    "E71010",
    "acl-callback",
    "{reason}",
    "A callback runs on the thread that subscribed to its stream, inside process_report.",
    "{remedy}",
)
ACL_PROFILING: Final = ErrorCode(
    "E71011",
    "acl-profiling",
    "{reason}",
    "Profiling goes init, create_config, start, stop, destroy_config, finalize.",
    "{remedy}",
)

# E41000-E41019: graphs, options and passes given to gerules.compat.ge
GE_UNKNOWN_OPERATOR: Final = ErrorCode(
    "E41001",
    "ge-unknown-operator",
    "{type} is no operator of the Graph Engine that gerules lowers",
    "Every operator of a graph is lowered to operators that rules match, by a table of types.",
    "{remedy}",
)
GE_BAD_NODE: Final = ErrorCode(
    "E41002",
    "ge-bad-node",
    "{type} cannot be built: {reason}",
    "An operator misses an input, or has an attribute or an input that it does not take.",
    "{remedy}",
)
GE_BAD_EDGE: Final = ErrorCode(
    "E41003",
    "ge-bad-edge",
    "{source} cannot lead to {target}: {reason}",
    "An edge goes from an output of a node to a free input of another node of the same graph.",
    "{remedy}",
)
GE_BAD_GRAPH: Final = ErrorCode(
    "E41004",
    "ge-bad-graph",
    "graph {name}: {reason}",
    "A graph has inputs numbered from 0, at least one output, and no cycle.",
    "{remedy}",
)
GE_BAD_PASS: Final = ErrorCode(
    "E41005",
    "ge-bad-pass",
    "pass {name}: {reason}",
    "A pattern fusion pass has methods marked @pattern, and a replacement; both build a few operators.",
    "{remedy}",
)
GE_SEQUENCE: Final = ErrorCode(
    "E41006",
    "ge-sequence",
    "{reason}",
    "Graphs are added to a session before they are compiled, and compiled before they are asked about.",
    "{remedy}",
)
GE_BAD_TENSOR: Final = ErrorCode(
    "E41007",
    "ge-bad-tensor",
    "{reason}",
    "A tensor has an element type, a shape, and as many elements as the shape says.",
    "{remedy}",
)

DECLARED_TWICE: Final = ErrorCode(
    "E40103",
    "declared-twice",
    "the {kind} {name} is declared twice",
    "All rule files of a compile share one space of names.",
    "rename one of the two",
)
COPIED_FILE: Final = ErrorCode(
    "E40108",
    "copied-file",
    "{n_names} names of this file are declared in {other} already: {names}, …",
    "All rule files of a compile share one space of names, and the shipped rules are among them unless left out.",
    "give only one of the two files, or rename what is new in the copy",
)
BAD_INCLUDE: Final = ErrorCode(
    "E40104",
    "bad-include",
    "{path} may not be included: {reason}",
    "An include names a rule file by a path relative to its own folder or to the shipped rules.",
    "give a relative path to a .ger file",
)
INCLUDE_NOT_FOUND: Final = ErrorCode(
    "E40105",
    "include-not-found",
    "{path} is neither beside this file nor among the shipped rules",
    "An include names a rule file by a path relative to its own folder or to the shipped rules.",
    "correct the path, or put the file there",
)
CIRCLE: Final = ErrorCode(
    "E40106",
    "circle",
    "{what} need each other in a circle: {path}",
    "Files, operator sets, constants and bases are built from others, which must end somewhere.",
    "cut the circle at one place",
)
TOO_MANY_FILES: Final = ErrorCode(
    "E40107",
    "too-many-files",
    "a rule book has more than {limit} files",
    "The number of files is bounded, so that a hostile folder cannot exhaust the machine.",
    "name the files that are needed",
)
RULES_DO_NOT_STOP: Final = ErrorCode(
    "E40030",
    "rules-do-not-stop",
    "the rules still apply after {n} rewrites; they go round in {cycle}",
    "Rules undo each other, or a rule applies to its own result again and again.",
    "give one of them `once`, a guard, or take it out of the phase",
)
TOO_MANY_STEPS: Final = ErrorCode(
    "E40031",
    "too-many-steps",
    "matching {rule} at one node takes more than {limit} steps; it was given up there",
    "Alternatives and commuted operands inside each other make a pattern that can be read in too many ways.",
    "fix the order with `!`, or name what the alternatives have in common",
)
PATTERN_TOO_LARGE: Final = ErrorCode(
    "E40032",
    "pattern-too-large",
    "the pattern is too large: more than {limit}",
    "Names used in several alternatives are expanded once for each.",
    "split the rule, or use fewer alternatives",
)
TOO_MANY_LEAVES: Final = ErrorCode(
    "E40033",
    "too-many-leaves",
    "{op}~ has {n} arguments; at most {limit} are matched in any order",
    "All orders and associations of the arguments are tried.",
    "name a part of the expression and match that first",
)
NO_ROOT_OPERATOR: Final = ErrorCode(
    "E40034",
    "no-root-operator",
    "{rule} does not say which operator to start from",
    "The value that a pattern ends in may come from any operator.",
    "end the pattern in an operator, or in alternatives that are all operators",
)
ROOTS_NOT_CONNECTED: Final = ErrorCode(
    "E40035",
    "roots-not-connected",
    "{rule} has results that share no value",
    "The parts of a pattern with several results are found through a value that they have in common.",
    "name the value that both read, or make two rules",
)
PHASE_REQUIRES: Final = ErrorCode(
    "E40036",
    "phase-requires",
    "the phase {phase} does not have what it requires: {reason}",
    "A condition of the phase that has to hold before it runs does not.",
    "run the phases that bring it about first",
)
PHASE_ENSURES: Final = ErrorCode(
    "E40037",
    "phase-ensures",
    "the phase {phase} does not ensure what it promises: {reason}",
    "A condition of the phase that has to hold after it ran does not.",
    "see in the trace which rules did not apply, and why",
)
BAD_DEFINE: Final = ErrorCode(
    "E40038",
    "define-does-not-fit",
    "{op} cannot be expanded here: {reason}",
    "What a `define` says does not go with the inputs or attributes of this node.",
    "correct the node, or the definition",
)
NO_ATTRIBUTE_HERE: Final = ErrorCode(
    "E40039",
    "no-attribute-here",
    "an attribute stands here in the sub-pattern, and this can be none",
    "A formal that a `pattern` uses as an attribute takes a name, a number or `none`.",
    "give a name, and say with a guard what it has to be",
)
UNKNOWN_OPERATOR: Final = ErrorCode(
    "E40111",
    "unknown-operator",
    "{name} is no operator",
    "An operator of a rule has neither a schema nor a `define`.",
    "correct the name, or add a `define` for it",
)
UNKNOWN_OPSET: Final = ErrorCode(
    "E40112",
    "unknown-operator-set",
    "{name} is no operator set",
    "A set of operators is used that no `ops` line declares.",
    "declare it with `ops`, or include the file that does",
)
UNKNOWN_ATTRIBUTE: Final = ErrorCode(
    "E40113",
    "unknown-attribute",
    "{owner} has no {name}",
    "A keyword names neither an attribute nor an input of the operator, at any opset.",
    "correct the name",
)
UNKNOWN_FUNCTION: Final = ErrorCode(
    "E40114",
    "unknown-function",
    "{name} is no function of the rule language",
    "Expressions may call only registered functions.",
    "correct the name, or declare it with `extern` and register it from Python",
)
BAD_CALL: Final = ErrorCode(
    "E40115",
    "bad-call",
    "{name} cannot be called like this: {reason}",
    "The arguments of a function do not fit its parameters.",
    "give the arguments that it takes",
)
BAD_ARITY: Final = ErrorCode(
    "E40116",
    "bad-arity",
    "{op} does not fit its schema: {reason}",
    "Inputs, outputs or attributes of an operator are too many or too few.",
    "write the operator as its schema has it",
)
UNUSED_NAME: Final = ErrorCode(
    "E40117",
    "unused-name",
    "{name} ({kind}) is never used",
    "A name that nothing uses is either superfluous or a sign of a mistake.",
    "{remedy}",
)
BAD_NAME: Final = ErrorCode(
    "E40118",
    "bad-name",
    "{name} cannot be used here: {reason}",
    "What a name stands for does not fit the place where it is used.",
    "use a name that stands for what is needed here",
)
UNKNOWN_SWITCH: Final = ErrorCode(
    "E40120",
    "unknown-switch",
    "{option} cannot be {name}: there is no such {kind}",
    "What switches a rule on or off names it, its set, an alias, or `all`; profiles and parameters have names too.",
    "{remedy}",
)
BOTH_SWITCHED: Final = ErrorCode(
    "E40122",
    "both-switched",
    "{name} is switched on and off",
    "One name cannot be in the lists of what to enable and of what to disable; which of them counts is a guess.",
    "leave it out of one of the two",
)
EXTERN_MISSING: Final = ErrorCode(
    "E40124",
    "extern-missing",
    "no Python function is registered as {name}",
    "An `extern` line declares a function of Python; the module that registers it was not imported.",
    "{remedy}",
)
EXTERN_DIFFERS: Final = ErrorCode(
    "E40125",
    "extern-differs",
    "{name} is not as its `extern` line says: {reason}",
    "An `extern` line and the Python function behind it differ in kind, parameters or types.",
    "make the `extern` line and the Python function say the same",
)
UNFIT_FUNCTION: Final = ErrorCode(
    "E40126",
    "bad-function-of-rules",
    "{name} cannot be a function of rules: {reason}",
    "A function of Python that rules call has a name of its own, and types that rules have, in its annotations.",
    "{remedy}",
)
FUNCTION_FAILED: Final = ErrorCode(
    "E40127",
    "function-failed",
    "the Python function {name} {what}",
    "A function that rules call from Python raised an exception, or gave something else than it is annotated with, or something else for the same arguments.",
    "correct the function; it is defined at {defined_at}",
)
PATTERN_FAILED: Final = ErrorCode(
    "E40128",
    "fusion-pattern-failed",
    "the fusion pattern {name} gives no rule: {reason}",
    "A function given to `register_fusion_pattern` raised an exception, or returned neither a text nor a pattern.",
    "{remedy}",
)
MAY_NOT_STOP: Final = ErrorCode(
    "E40130",
    "may-not-stop",
    "the phase {phase} may never end: {rules} {verb} no operator fewer",
    "No positive weights of operators fall with every rewrite, so the rules may undo each other or feed themselves.",
    "give one of them `once`, say what it `decreases`, or run them in different phases",
)
DOES_NOT_DECREASE: Final = ErrorCode(
    "E40131",
    "does-not-decrease",
    "{rule} does not decrease {measure}",
    "What a rule says it makes smaller is what proves that its phase ends.",
    "name what becomes less with every rewrite, or say `once`",
)
RULES_NOT_IMPORTED: Final = ErrorCode(
    "E40129",
    "rules-not-imported",
    "{path} cannot be imported: {reason}",
    "A Python file given as rules is run for what it registers, and raised an exception.",
    "correct the file",
)
HIDDEN_PARAMETER: Final = ErrorCode(
    "E40132",
    "hidden-parameter",
    "`_` hides {name} of {op}, which changes the result",
    "A rule that does not look at a parameter that matters holds for all its values, or is wrong.",
    "bind it and guard it, or say in a comment on this line why it does not matter",
)
DEAD_GUARD: Final = ErrorCode(
    "E40133",
    "dead-guard",
    "`{text}` {said}",
    "A condition that no match can make false guards nothing; one that none can make true keeps its rule from ever applying.",
    "remove it, or ask what was meant",
)
NOT_EXACT: Final = ErrorCode(
    "E40134",
    "not-exact",
    "{rule} changes what is computed and does not say `inexact`",
    "Both sides of a rule were computed, and some result has other bits: a rounding, NaN, infinity or the sign of zero;"
    " or far more, and then `inexact` is no answer.",
    "{remedy}",
)
OVERLAP: Final = ErrorCode(
    "E40135",
    "undecided-overlap",
    "{first} and {second} apply at one place of {phase}, and nothing says which goes first",
    "Two patterns of one size and priority match at one node, with different results; the order of lines decides.",
    "let one of them say `overrides`, give one a `priority`, or a guard that keeps them apart",
)
SHADOWED: Final = ErrorCode(
    "E40136",
    "shadowed-rule",
    "{rule} never gets its turn: {other} is more general and goes first",
    "Whatever matches the pattern of this rule is taken by another rule before it.",
    "let it say `overrides {other}`, make the other less general, or remove it",
)
NEEDS_ABSENT: Final = ErrorCode(
    "E40137",
    "needs-absent",
    "`{text}` needs `{name}`, which is none in some matches",
    "What only one alternative or an optional operator binds is none without it; a use that needs a value keeps the rule"
    " from ever applying there.",
    "bind `{name}` in every alternative, or let `where` ask whether `{name} is none`",
)
OVERRIDES_CIRCLE: Final = ErrorCode(
    "E40138",
    "overrides-circle",
    "rules override each other in a circle: {path}",
    "Each of these rules says that it goes before the next, so none of them can be the first.",
    "remove `overrides` from one of them",
)
UNKNOWN_OVERRIDDEN: Final = ErrorCode(
    "E40139",
    "unknown-overridden",
    "there is no rule {name}",
    "`overrides` names another rule of these files, of what they include, or of those that come with gerules.",
    "correct the name, or remove it",
)
NAME_OF_TYPE: Final = ErrorCode(
    "E40142",
    "name-of-type",
    "{name} is no element type here, but a name for whatever the attribute is",
    "Other tools write element types so; here such a name binds, and fits every type.",
    "did you mean {dtype}? Otherwise take another name",
)
NO_RULE_TO_EXPORT: Final = ErrorCode(
    "E40141",
    "no-rule-to-export",
    "there is no rule in {source}",
    "Rules are exported as passes, and the files that are given declare none.",
    "name files or folders with rules; without a path the shipped rules are exported",
)
NOT_A_PASS: Final = ErrorCode(
    "E40140",
    "not-a-pass",
    "{rule} cannot be written as a pass of the Graph Engine: {reason}",
    "Its passes match fixed patterns: no groups, chains or any order, no storage formats or costs, and operators that it has.",
    "leave the rule to gerules, or write the part that is told here in a fixed form",
)
NO_VALUE: Final = ErrorCode(
    "E40110",
    "no-value",
    "`{text}` has no value: {reason}",
    "An expression of a rule asks for something that does not exist: an index outside, a wrong type, a division by zero.",
    "guard it with a condition that holds where it has a value, or correct it",
)

# ---------------------------------------------------------------- E9: gerules itself
INTERNAL: Final = ErrorCode(
    "E90001",
    "internal",
    "gerules met a fault of its own: {reason}",
    "This is a defect of gerules, not of your input.",
    "run again with --debug and report the traceback",
)


def _collect() -> dict[str, ErrorCode]:
    found = [value for value in globals().values() if isinstance(value, ErrorCode)]
    table = {item.code: item for item in found}
    if len(table) != len(found):
        raise AssertionError("two entries of the error table share a code")
    return table


TABLE: Final = _collect()
"""Every code, by its text."""
