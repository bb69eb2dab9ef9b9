"""Codes that are ours: models, files, plugins, options."""

from __future__ import annotations

from dovetail.errors._entry import Entry

OWN_CODES: tuple[Entry, ...] = (
    Entry(
        "DOVETAIL_ERROR",
        7,
        "An error without a more specific code.",
        "Read the message and check the object that it names.",
    ),
    Entry(
        "BUG",
        70,
        "A bug in Dovetail, not an error of yours.",
        "Run again with `--log-level debug`, and report the traceback and the dist in the message.",
    ),
    # Options and config files
    Entry(
        "CONFIG_INVALID",
        2,
        "An option or a config value has the wrong type or is out of range.",
        "Correct the value at the path in the message; `--help` lists the allowed values.",
    ),
    Entry(
        "CONFIG_UNKNOWN_KEY",
        2,
        "A config file has unknown keys.",
        "Correct the spelling (the message suggests the nearest valid key) or delete the key.",
    ),
    Entry(
        "CONFIG_UNREADABLE",
        2,
        "A config file does not exist or is not valid TOML or JSON.",
        "Check the path and the line in the message.",
    ),
    Entry(
        "USAGE",
        2,
        "The command line, or an argument of a call from Python, is not valid.",
        "See the command's `--help`, or `help()` of the function in Python.",
    ),
    # Plugins
    Entry(
        "PLUGIN_MISSING",
        6,
        "No installed plugin has this name.",
        "`dovetail plugins` lists what is installed; install the dist that provides the plugin.",
    ),
    Entry(
        "PLUGIN_BROKEN",
        6,
        "A plugin is installed but cannot be loaded, or does not meet the contract of its group.",
        "`dovetail doctor` shows the reason; repair or uninstall the dist.",
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
        "Uninstall one of the two dists, or restrict the plugins with DOVETAIL_PLUGINS.",
    ),
    Entry(
        "PLUGIN_INCOMPATIBLE",
        6,
        "A plugin's dist requires another version of dovetail-core.",
        "Install versions that are compatible with each other.",
    ),
    # Graphs and ops
    Entry(
        "GRAPH_INVALID",
        3,
        "A graph is not well formed.",
        "The message lists every fault with its node or tensor.",
    ),
    Entry(
        "PASS_BROKE_GRAPH",
        70,
        "A pass left a graph that is not well formed.",
        "Report it to the pass's authors; `convert --dry-run` shows which dist provides the pass.",
    ),
    Entry(
        "OP_INVALID",
        3,
        "A node does not match its op's schema.",
        "Compare its inputs, params and types with the op's definition.",
    ),
    Entry(
        "OP_UNSUPPORTED",
        4,
        "Nothing installed can convert or run an op of the model.",
        "Install an op package or backend that supports it, or rewrite that part of the model.",
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
        "Calibration observed no finite value of a tensor, so its range is unknown.",
        "Use samples that reach the tensor, and check the values that it is computed from for NaN.",
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
        "Samples for calibration do not match the graph's inputs.",
        "Pass one array for each input, of its shape; the message lists the differences.",
    ),
    Entry(
        "CALIBRATION_NOT_FINITE",
        3,
        "A tensor had NaN or infinity during calibration, which no range can include.",
        "Check the sample and the tensor that the message names first.",
    ),
    # Model and data files
    Entry(
        "MODEL_INVALID",
        3,
        "A model file is not valid in its format.",
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
        "The file is a model of the vendor's SDK, compiled or not yet converted.",
        "Convert a .dlc (install dovetail-qnn), or the source (.cpp or ONNX) of a .so.",
    ),
    Entry(
        "MODEL_EXTERNAL_DATA",
        3,
        "The file with the model's weights is missing, too short or outside the model's folder.",
        "Put the data file into the model's folder, under the name that the model contains.",
    ),
    Entry(
        "MODEL_SHAPE_UNKNOWN",
        3,
        "A model has dimensions without a known size.",
        "Set them with `--input-dim` or `--define-symbol`.",
    ),
    Entry(
        "MODEL_VALUES_UNKNOWN",
        4,
        "Shapes or attributes of a model depend on the values of its inputs.",
        "Name the inputs in `Session(..., specialize=[...])`, which converts for their values.",
    ),
    Entry(
        "INPUT_INVALID",
        3,
        "Input data do not match the model's inputs.",
        "`dovetail inspect MODEL` prints names, shapes and types of the inputs.",
    ),
    Entry(
        "FILE_UNREADABLE",
        3,
        "A file cannot be opened or read.",
        "Check that the file exists and that you may read it.",
    ),
    Entry(
        "FILE_UNWRITABLE",
        3,
        "An output file or folder cannot be written.",
        "Check that the folder exists, that you may write to it and that the disk has space.",
    ),
    # Containers
    Entry(
        "PROFILE_LOG_INVALID",
        3,
        "A file is not a profile log, or a line of it is invalid.",
        "Pass a log as `net-run --profiling-level` or `Session(profile_log=...)` wrote it.",
    ),
    Entry(
        "PROFILE_LOG_VERSION",
        5,
        "A profile log was written in a newer format than this core reads.",
        "Upgrade dovetail-core, or measure again with this version.",
    ),
    Entry(
        "CONTAINER_NOT_ONE",
        3,
        "A file is not a Dovetail container.",
        "Use a .dvt model or context binary, or convert the source model.",
    ),
    Entry(
        "CONTAINER_DAMAGED",
        3,
        "A container file is truncated or its bytes have changed since it was written.",
        "Create or fetch the file again; `dovetail inspect --verify` checks all of it.",
    ),
    Entry(
        "CONTAINER_CHANGED",
        3,
        "A container file was overwritten or cut short while its weights were in use.",
        "Load it again. Replace files by renaming, or use map_weights=False (--no-map-weights).",
    ),
    Entry(
        "CONTAINER_INVALID",
        3,
        "A container file is undamaged but its content is invalid.",
        "Report it to the authors of the tool that wrote it; the message has the manifest path.",
    ),
    Entry(
        "CONTAINER_KIND",
        3,
        "A container file is not of the expected kind.",
        "Pass a file of the expected kind; `dovetail inspect FILE` shows the content of a file.",
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
        "A context binary is for another backend, profile or plugin version.",
        "Create the context binary again; the message has the reason.",
    ),
    # Runs
    Entry(
        "BACKEND_FAILED",
        7,
        "A backend failed while preparing or running a graph.",
        "The message has the cause; try another backend to see whether the model is at fault.",
    ),
    Entry(
        "CHECK_FAILED",
        1,
        "A requested check failed.",
        "The message says what was measured and what was required.",
    ),
    Entry(
        "PLACEMENT_CHECK_FAILED",
        1,
        "The placement of a graph on several backends breaks the contract of the config.",
        "The message lists the nodes with the reasons; relax `[placement]` or change the model.",
    ),
    Entry(
        "CHOICE_CHECK_FAILED",
        1,
        "The rules of the backend `auto` exclude all of its candidates for a graph.",
        "The message lists the reasons; relax `[auto]`, or name other candidates: `auto:a,b`.",
    ),
    Entry(
        "COMPARISON_INVALID",
        3,
        "Two tensors cannot be compared.",
        "Compare tensors of the same name and layout; the message has their shapes.",
    ),
    Entry(
        "TRACE_INVALID",
        3,
        "A recorded trace cannot be read.",
        "Record it again; `dovetail trace verify` lists what is wrong with a trace.",
    ),
)
