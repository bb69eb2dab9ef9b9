"""Codes that are ours: models, files, plugins, options."""

from __future__ import annotations

from dovetail.errors._entry import Entry

OWN_CODES: tuple[Entry, ...] = (
    Entry(
        "DOVETAIL_ERROR",
        7,
        "An error without a more exact code.",
        "Read its message; the object it names is where to look.",
    ),
    Entry(
        "BUG",
        70,
        "A program error, ours or a plugin's: nothing that you did.",
        "Run again with `--log-level debug` and report the traceback to the dist named.",
    ),
    # Options and config files
    Entry(
        "CONFIG_INVALID",
        2,
        "An option or a config value has the wrong type or is out of range.",
        "Correct the value at the place named; `--help` lists what is allowed.",
    ),
    Entry(
        "CONFIG_UNKNOWN_KEY",
        2,
        "A config file has keys that nothing reads.",
        "Correct the spelling (the nearest valid key is suggested) or delete the key.",
    ),
    Entry(
        "CONFIG_UNREADABLE",
        2,
        "A config file does not exist or is not valid TOML or JSON.",
        "Check the path and the line named.",
    ),
    Entry(
        "USAGE",
        2,
        "The command line does not fit the command.",
        "See the command's `--help`.",
    ),
    # Plugins
    Entry(
        "PLUGIN_MISSING",
        6,
        "No installed plugin has this name.",
        "`dovetail plugins` lists what is installed; install the dist that brings the plugin.",
    ),
    Entry(
        "PLUGIN_BROKEN",
        6,
        "A plugin is installed but cannot be loaded, or is not what its group asks for.",
        "`dovetail doctor` shows the reason; repair or uninstall the dist named.",
    ),
    Entry(
        "PLUGIN_FAILED",
        6,
        "The code of a third party's plugin raised an exception.",
        "Run again with `--log-level debug` and report the traceback to the authors of the plugin.",
    ),
    Entry(
        "PLUGIN_CONFLICT",
        6,
        "Two installed dists claim one name in one group.",
        "Uninstall one of the two dists named, or restrict the set with DOVETAIL_PLUGINS.",
    ),
    Entry(
        "PLUGIN_INCOMPATIBLE",
        6,
        "A plugin's dist requires another version of dovetail-core.",
        "Install versions that fit together.",
    ),
    # Graphs and ops
    Entry(
        "GRAPH_INVALID",
        3,
        "A graph is not well formed.",
        "Every fault found is listed with the node or tensor it is about.",
    ),
    Entry(
        "PASS_BROKE_GRAPH",
        70,
        "A pass left a graph that is not well formed.",
        "Report it to the pass's authors; `convert --dry-run` shows which dist brings the pass.",
    ),
    Entry(
        "OP_INVALID",
        3,
        "A node does not fit its op's schema.",
        "Compare its inputs, params and types with the op's definition.",
    ),
    Entry(
        "OP_UNSUPPORTED",
        4,
        "Nothing installed can convert or run an op of the model.",
        "Install an op package or backend that has it, or rewrite that part of the model.",
    ),
    Entry(
        "ENCODING_INVALID",
        3,
        "A quantization encoding does not fit its tensor.",
        "Check scales, offsets, axis and block sizes against the tensor's shape and type.",
    ),
    Entry(
        "CALIBRATION_EMPTY",
        3,
        "A tensor's range is wanted, but calibration saw no finite value of it.",
        "Give samples that reach the tensor, and look for NaN in what it is computed from.",
    ),
    Entry(
        "ENCODING_UNMATCHED",
        3,
        "An encodings file names tensors that the model does not have.",
        "Use the names of the model that was converted, or pass the option lenient.",
    ),
    Entry(
        "CALIBRATION_MISFIT",
        3,
        "Samples for calibration are not what the graph's inputs take.",
        "Give one array for each input, of its shape; the error lists what differs.",
    ),
    Entry(
        "CALIBRATION_NOT_FINITE",
        3,
        "A tensor held NaN or infinity while calibrating, which no range can span.",
        "Look at the sample and the tensor that the error names first.",
    ),
    # Model and data files
    Entry(
        "MODEL_INVALID",
        3,
        "A model file cannot be read as what it claims to be.",
        "Check the file with the tool that wrote it.",
    ),
    Entry(
        "MODEL_FORMAT_UNKNOWN",
        3,
        "No installed frontend reads files of this kind.",
        "`dovetail plugins` lists the frontends; install the one for this format.",
    ),
    Entry(
        "MODEL_FOREIGN",
        3,
        "A compiled model of the vendor's SDK was given; it cannot be read here.",
        "Convert the source model (ONNX, ...) that the file was made from.",
    ),
    Entry(
        "MODEL_EXTERNAL_DATA",
        3,
        "The model's weights lie in a file that is missing, too short or outside its folder.",
        "Put the data file beside the model under the name the model gives.",
    ),
    Entry(
        "MODEL_SHAPE_UNKNOWN",
        3,
        "A model has dimensions without a value.",
        "Bind them with `--input-dim` or `--define-symbol`.",
    ),
    Entry(
        "MODEL_VALUES_UNKNOWN",
        4,
        "Shapes or attributes of a model depend on the values of its inputs; ours are static.",
        "Name the inputs in `Session(..., specialize=[...])`, which converts for their values.",
    ),
    Entry(
        "INPUT_INVALID",
        3,
        "Input data do not fit the model's inputs.",
        "`dovetail inspect MODEL` prints names, shapes and types of the inputs.",
    ),
    Entry(
        "FILE_UNREADABLE",
        3,
        "A file cannot be opened or read.",
        "Check that it exists and may be read.",
    ),
    Entry(
        "FILE_UNWRITABLE",
        3,
        "An output file or folder cannot be written.",
        "Check that the folder exists, may be written and has room.",
    ),
    # Containers
    Entry(
        "CONTAINER_NOT_ONE",
        3,
        "A file is not a Dovetail container.",
        "Give a .dvt model or context binary, or convert the source model.",
    ),
    Entry(
        "CONTAINER_DAMAGED",
        3,
        "A container file is cut short or its bytes are not what was written.",
        "Make or fetch the file again; `dovetail inspect --verify` checks all of it.",
    ),
    Entry(
        "CONTAINER_INVALID",
        3,
        "A container file is undamaged but says something that cannot be.",
        "Report it to the makers of the tool that wrote it; the place in its manifest is named.",
    ),
    Entry(
        "CONTAINER_KIND",
        3,
        "A container file holds another kind of thing than was asked for.",
        "Give a model where a model is wanted; `dovetail inspect FILE` shows what a file holds.",
    ),
    Entry(
        "CONTAINER_VERSION",
        5,
        "A container file was written by a newer format than this core reads.",
        "Upgrade dovetail-core or write the file again with this version.",
    ),
    Entry(
        "CONTAINER_INCOMPATIBLE",
        5,
        "A context binary was made for another backend, profile or plugin version.",
        "Make the context binary again; the reason is in the message.",
    ),
    # Runs
    Entry(
        "BACKEND_FAILED",
        7,
        "A backend failed while preparing or running a graph.",
        "The cause is in the message; try another backend to tell whether the model is at fault.",
    ),
    Entry(
        "CHECK_FAILED",
        1,
        "A check that was asked for did not hold.",
        "The message says what was measured and what was demanded.",
    ),
    Entry(
        "COMPARISON_INVALID",
        3,
        "Two tensors cannot be compared.",
        "Compare tensors of the same name and layout; their shapes are in the message.",
    ),
    Entry(
        "TRACE_INVALID",
        3,
        "A recorded trace cannot be read.",
        "Record it again; a trace that was cut off ends with a mark.",
    ),
)
