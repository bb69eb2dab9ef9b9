"""Codes of the runtime API: names and numbers are QNN's, the sentences are ours.

Source: the public QNN API reference, its error enumerations.
"""

from __future__ import annotations

from dovetail.errors._entry import Entry

API_CODES: tuple[Entry, ...] = (
    # Codes that every part of the API may return
    Entry(
        "COMMON_ERROR_NOT_SUPPORTED",
        7,
        "The backend does not implement this call or option.",
        "Compare the call with the backend's capabilities; use another backend or omit the option.",
        number=1000,
    ),
    Entry(
        "COMMON_ERROR_MEM_ALLOC",
        7,
        "Memory could not be allocated: host memory, device mappings or on-chip memory.",
        "The message says which memory: one op too large for on-chip memory (tile it or lower its "
        "precision), weights too large to map (split the model), all graphs of a context loaded "
        "at once (enable fewer), or an op that could not be built at all.",
        number=1002,
    ),
    Entry(
        "COMMON_ERROR_SYSTEM",
        7,
        "The operating system or the driver below the backend rejected a request.",
        "Read the system's log at the time of the call; permissions, a missing device node and a "
        "driver of another release are the usual causes.",
        number=1003,
    ),
    Entry(
        "COMMON_ERROR_INVALID_ARGUMENT",
        7,
        "A call got an argument that is missing or out of its range.",
        "Correct the argument that the message names; in a recorded trace it is the last call.",
        number=1004,
    ),
    Entry(
        "COMMON_ERROR_OPERATION_NOT_PERMITTED",
        7,
        "The call is valid but not allowed in the present state or for this user.",
        "Check the order of calls (create, compose, finalize, execute, free) and the access "
        "rights to the device.",
        number=1005,
    ),
    Entry(
        "COMMON_ERROR_PLATFORM_NOT_SUPPORTED",
        7,
        "The backend cannot work on this kind of machine.",
        "Run it on a supported platform, or choose another backend for this machine.",
        number=1006,
    ),
    Entry(
        "COMMON_ERROR_SYSTEM_COMMUNICATION",
        7,
        "The connection between the host and the accelerator failed during a call.",
        "Try the call once more; if it fails again, close the session and open a new one.",
        number=1007,
    ),
    Entry(
        "COMMON_ERROR_INCOMPATIBLE_BINARIES",
        5,
        "Libraries of different releases were loaded together.",
        "Use the host library, the device library and the op packages of one release; an older "
        "copy found earlier on the search path is the usual cause.",
        number=1008,
    ),
    Entry(
        "COMMON_ERROR_LOADING_BINARIES",
        7,
        "A library that the backend needs could not be loaded.",
        "`dovetail doctor` says which and why; with the vendor's SDK, check that the device "
        "library for this chip's architecture is on its search path and that the process may load "
        "it.",
        number=1009,
    ),
    Entry(
        "COMMON_ERROR_RESOURCE_UNAVAILABLE",
        7,
        "A resource that the call needs is in use elsewhere.",
        "Free the contexts and sessions that are not used any more, or wait and try again.",
        number=1010,
    ),
    Entry(
        "COMMON_ERROR_SYSTEM_COMMUNICATION_FATAL",
        7,
        "The connection to the accelerator broke and all handles created over it are lost.",
        "Drop every handle, create backend, device and context anew, and look for a crash of the "
        "device process in the system's log.",
        number=1011,
    ),
    Entry(
        "COMMON_ERROR_GENERAL",
        7,
        "The call failed for a reason without a more specific code.",
        "Read the message; run again with `--log-level debug` for the steps before it.",
        number=1100,
    ),
    # Property: what a backend says it can do
    Entry(
        "PROPERTY_NOT_SUPPORTED",
        7,
        "The backend knows the queried property and does not have it.",
        "This is not a failure: use a path that does not need the property.",
        number=1000,
    ),
    Entry(
        "PROPERTY_ERROR_UNKNOWN_KEY",
        2,
        "The backend does not know the queried property key.",
        "Check the key's number; for a key newer than the backend this means that it lacks the "
        "property.",
        number=2000,
    ),
    # Op packages
    Entry(
        "OP_PACKAGE_ERROR_UNSUPPORTED_FEATURE",
        7,
        "The op package does not implement an optional function that was called.",
        "Do not use the function, or ask the package's authors whether a newer release has it.",
        number=1000,
    ),
    Entry(
        "OP_PACKAGE_ERROR_LIBRARY_ALREADY_INITIALIZED",
        6,
        "An op package was initialized a second time without being terminated first.",
        "Register each op package once per process; look for two config entries that name it.",
        number=3000,
    ),
    Entry(
        "OP_PACKAGE_ERROR_LIBRARY_NOT_INITIALIZED",
        6,
        "A function of an op package was called before the package was initialized.",
        "Register the op package with the backend before using its ops, and look for an earlier "
        "failure of its registration.",
        number=3001,
    ),
    Entry(
        "OP_PACKAGE_ERROR_INVALID_HANDLE",
        7,
        "An op package was given an op handle that it did not create or has freed.",
        "Look for an op implementation that is used after its graph was freed, or freed twice.",
        number=3002,
    ),
    Entry(
        "OP_PACKAGE_ERROR_INVALID_INFRASTRUCTURE",
        6,
        "The service object that the backend hands to an op package is missing or of another "
        "version.",
        "Use an op package written for this backend and release.",
        number=3100,
    ),
    Entry(
        "OP_PACKAGE_ERROR_INVALID_INFO",
        6,
        "The description that an op package returns of itself is incomplete or contradictory.",
        "`dovetail plugins` shows what the package declares; its name, version and list of ops "
        "are all required.",
        number=3101,
    ),
    Entry(
        "OP_PACKAGE_ERROR_VALIDATION_FAILURE",
        4,
        "The op package rejects a node of the graph.",
        "The code covers a wrong package, count, type or rank and an unsupported size: read the "
        "rule and field in the message, or try the same node on the cpu backend and then change "
        "type, rank and params one at a time.",
        number=3110,
    ),
    Entry(
        "OP_PACKAGE_ERROR_INVALID_ARGUMENT",
        7,
        "A function of an op package got an argument that is missing or malformed.",
        "If the package is yours, check what it reads from its arguments; otherwise report it to "
        "its authors with a recorded trace.",
        number=3200,
    ),
    Entry(
        "OP_PACKAGE_ERROR_GENERAL",
        7,
        "An op package failed for a reason that it does not report.",
        "Read the package's own message or log and report it to the package's authors.",
        number=1100,
    ),
    # Backend
    Entry(
        "BACKEND_ERROR_MEM_ALLOC",
        7,
        "There was not enough memory to create the backend itself.",
        "Free memory on the machine; at this point no model is loaded, so the model's size is not "
        "the cause.",
        number=1002,
    ),
    Entry(
        "BACKEND_ERROR_UNSUPPORTED_PLATFORM",
        7,
        "The backend does not support this machine or operating system.",
        "`dovetail doctor` lists the backends that can start here; use one of them.",
        number=1006,
    ),
    Entry(
        "BACKEND_ERROR_CANNOT_INITIALIZE",
        7,
        "The backend was found but could not start.",
        "The cause is in the message, most often a driver or a library below it; `dovetail "
        "doctor` tries each backend alone.",
        number=4000,
    ),
    Entry(
        "BACKEND_ERROR_TERMINATE_FAILED",
        7,
        "The backend could not release everything when it was freed.",
        "Free graphs, contexts and devices before the backend, and wait for asynchronous runs to "
        "end.",
        number=4002,
    ),
    Entry(
        "BACKEND_ERROR_NOT_SUPPORTED",
        7,
        "This backend does not implement this backend-level call.",
        "Query its capabilities before the call, or choose a backend that implements it.",
        number=4003,
    ),
    Entry(
        "BACKEND_ERROR_INVALID_ARGUMENT",
        7,
        "A call on the backend got an argument that is missing or malformed.",
        "Check the paths, names and targets passed to the call, above all those of op packages.",
        number=4004,
    ),
    Entry(
        "BACKEND_ERROR_OP_PACKAGE_NOT_FOUND",
        4,
        "The op package that a node names, or that is being registered, was not found.",
        "`dovetail plugins` lists the op packages installed; install the missing one or correct "
        "the package name in the model. With the SDK on a device, check that its library was "
        "copied there.",
        number=4005,
    ),
    Entry(
        "BACKEND_ERROR_OP_PACKAGE_IF_PROVIDER_NOT_FOUND",
        6,
        "The library of an op package lacks the named entry function.",
        "Compare the name with what the package exports; in Dovetail an op package is an entry "
        "point and needs no such name.",
        number=4006,
    ),
    Entry(
        "BACKEND_ERROR_OP_PACKAGE_REGISTRATION_FAILED",
        6,
        "An op package was found but failed while it was being registered.",
        "The message has the package's own error; repair or update the package.",
        number=4007,
    ),
    Entry(
        "BACKEND_ERROR_OP_PACKAGE_UNSUPPORTED_VERSION",
        5,
        "An op package was built against a version of the op-package interface that the backend "
        "cannot use.",
        "Rebuild or update the op package for this release; such packages are not guaranteed to "
        "work across releases of the SDK.",
        number=4008,
    ),
    Entry(
        "BACKEND_ERROR_OP_PACKAGE_DUPLICATE",
        6,
        "An op package with the same name is registered already.",
        "Register it once, or give one of the two packages another name.",
        number=4009,
    ),
    Entry(
        "BACKEND_ERROR_INCONSISTENT_CONFIG",
        2,
        "The backend already runs with other options.",
        "Use the same options for the backend everywhere in a process, or use separate processes.",
        number=4010,
    ),
    Entry(
        "BACKEND_ERROR_INVALID_HANDLE",
        7,
        "The backend handle is empty, was freed, or belongs to another backend.",
        "Keep the backend open for as long as its contexts live; the first failure before this "
        "one is usually the real cause.",
        number=4011,
    ),
    Entry(
        "BACKEND_ERROR_INVALID_CONFIG",
        2,
        "An option in the backend's config is unknown or has an unsupported value.",
        "Correct the option at the path in the config file that the message gives.",
        number=4012,
    ),
    # Saver backend
    Entry(
        "SAVER_ERROR_DUMMY_RETVALUE",
        7,
        "The Saver recorded a call whose result only a real backend has.",
        "While recording, do not rely on the results of queries; replay the trace on a real "
        "backend to get them.",
        number=4950,
    ),
    Entry(
        "SAVER_ERROR_ALREADY_INSTANTIATED",
        7,
        "The Saver was configured after its backend had been created.",
        "Set its output folder and options before any other call of the session.",
        number=4951,
    ),
    # Context
    Entry(
        "CONTEXT_ERROR_UNSUPPORTED_FEATURE",
        7,
        "The backend's contexts do not support the request, for example to be saved to a file.",
        "Check the context capabilities of the backend; not every backend supports context "
        "binaries.",
        number=1000,
    ),
    Entry(
        "CONTEXT_ERROR_MEM_ALLOC",
        7,
        "There was not enough memory to create a context or to load one from a file.",
        "Load only the graphs that are needed, share weights between graphs, or split the model "
        "into several contexts.",
        number=1002,
    ),
    Entry(
        "CONTEXT_ERROR_INVALID_ARGUMENT",
        7,
        "A context call got an argument that the backend cannot use.",
        "When loading a context binary this often means a file from a newer release or for "
        "another chip: `dovetail inspect FILE` shows its versions and target. Otherwise correct "
        "the argument named.",
        number=5000,
    ),
    Entry(
        "CONTEXT_ERROR_CTX_DOES_NOT_EXIST",
        7,
        "The call needs a context, and none has been created yet.",
        "Create a context, or load one from a file, before this call.",
        number=5001,
    ),
    Entry(
        "CONTEXT_ERROR_INVALID_HANDLE",
        7,
        "The context handle is empty, was freed, or belongs to another backend.",
        "Check that creating the context succeeded and that nothing freed it before this call.",
        number=5002,
    ),
    Entry(
        "CONTEXT_ERROR_NOT_FINALIZED",
        7,
        "The context still holds graphs that are not finalized.",
        "Finalize every graph of the context before saving it.",
        number=5003,
    ),
    Entry(
        "CONTEXT_ERROR_BINARY_VERSION",
        5,
        "The context binary has a format version that this runtime does not read.",
        "Create the binary again with the version in use, or install the version that created it; "
        "`dovetail inspect FILE` shows that version.",
        number=5004,
    ),
    Entry(
        "CONTEXT_ERROR_CREATE_FROM_BINARY",
        5,
        "A context could not be built from a context binary.",
        "The message has the cause, for instance more on-chip memory (VTCM) than the chip has: "
        "prepare the model again for the SoC profile that it runs on.",
        number=5005,
    ),
    Entry(
        "CONTEXT_ERROR_GET_BINARY_SIZE_FAILED",
        7,
        "The size of the context binary could not be determined.",
        "Finalize all graphs first and read the cause in the message; it fails for the same "
        "reasons as saving does.",
        number=5006,
    ),
    Entry(
        "CONTEXT_ERROR_GET_BINARY_FAILED",
        7,
        "The context could not be saved as a context binary.",
        "Check that the buffer or the disk has room for the reported size, and that the context "
        "has not changed since.",
        number=5007,
    ),
    Entry(
        "CONTEXT_ERROR_BINARY_CONFIGURATION",
        5,
        "The settings of a context binary cannot be applied here.",
        "Prepare the model again with settings that this device has, above all its SoC profile "
        "and its on-chip memory size.",
        number=5008,
    ),
    Entry(
        "CONTEXT_ERROR_SET_PROFILE",
        7,
        "A profile could not be attached to the context.",
        "Create the profile on the same backend and with a level that this backend supports.",
        number=5009,
    ),
    Entry(
        "CONTEXT_ERROR_INVALID_CONFIG",
        2,
        "An option of the context has an unknown name or an unsupported value.",
        "Correct the option that the message names; `enable_graphs`, for one, must name graphs "
        "that the file has.",
        number=5010,
    ),
    Entry(
        "CONTEXT_ERROR_BINARY_SUBOPTIMAL",
        5,
        "The context binary would run here but not use the hardware fully, and the check was "
        "strict.",
        "Prepare the model again for this SoC profile, or accept the loss with the permissive "
        "compatibility setting.",
        number=5011,
    ),
    Entry(
        "CONTEXT_ERROR_ABORTED",
        7,
        "Creating or loading the context was stopped by a signal from the caller.",
        "If the stop was not intended, find the code that triggers the signal.",
        number=5012,
    ),
    Entry(
        "CONTEXT_ERROR_TIMED_OUT",
        7,
        "Creating or loading the context took longer than the time limit set.",
        "Raise the limit, or load a context binary, which takes far less time than preparing the "
        "model.",
        number=5013,
    ),
    Entry(
        "CONTEXT_ERROR_INCREMENT_INVALID_BUFFER",
        7,
        "A part of an incremental context binary was returned in a buffer that the backend did "
        "not allocate.",
        "Pass the buffer that the backend returned for this part, and release it only once.",
        number=5014,
    ),
    # Graph
    Entry(
        "GRAPH_ERROR_UNSUPPORTED_FEATURE",
        7,
        "The backend's graphs do not support the request, for example asynchronous execution.",
        "Check the graph capabilities of the backend and use the plain call, for instance a "
        "synchronous execute.",
        number=1000,
    ),
    Entry(
        "GRAPH_ERROR_MEM_ALLOC",
        7,
        "There was not enough memory to compose, finalize or run the graph.",
        "The message says which node or buffer was too large: shrink its tiles, the batch or the "
        "image, use narrower types, or split the graph there.",
        number=1002,
    ),
    Entry(
        "GRAPH_ERROR_GENERAL",
        7,
        "The graph call failed for a reason without a more specific code.",
        "Run the model on the cpu backend to see whether the model is at fault; if it runs there, "
        "bisect the graph to find the node.",
        number=1100,
    ),
    Entry(
        "GRAPH_ERROR_INVALID_ARGUMENT",
        7,
        "A graph call got an argument that is missing or does not fit the graph.",
        "Compare the number, names and sizes of inputs and outputs with what `dovetail inspect "
        "MODEL` prints.",
        number=6000,
    ),
    Entry(
        "GRAPH_ERROR_INVALID_HANDLE",
        7,
        "The graph handle is empty, was freed, or was never created.",
        "Go back to the first error before this one: usually creating, finalizing or loading the "
        "graph failed and its result was used nevertheless.",
        number=6001,
    ),
    Entry(
        "GRAPH_ERROR_GRAPH_DOES_NOT_EXIST",
        7,
        "The context has no graph of this name.",
        "`dovetail inspect FILE` lists the names of its graphs; names are matched exactly.",
        number=6002,
    ),
    Entry(
        "GRAPH_ERROR_INVALID_NAME",
        3,
        "The name of a graph or node is empty, or in use in this context.",
        "Give each graph of a context, and each node of a graph, a unique name.",
        number=6003,
    ),
    Entry(
        "GRAPH_ERROR_INVALID_TENSOR",
        3,
        "A tensor of a node, or one passed to execute, is not what the graph expects.",
        "Check that the tensor was created in this graph and that its type, shape and kind match "
        "its use.",
        number=6004,
    ),
    Entry(
        "GRAPH_ERROR_INVALID_OP_CONFIG",
        3,
        "A node's op, package, inputs, outputs or params are not a valid operation for the "
        "backend.",
        "Compare the node with the op's definition; an op may not support every tensor type that "
        "can be created (for example 4-bit weights in MatMul), and an op package that is missing "
        "on the device has this code, too.",
        number=6005,
    ),
    Entry(
        "GRAPH_ERROR_SET_PROFILE",
        7,
        "A profile could not be attached to the graph.",
        "Create the profile on the same backend and detach it from other graphs first.",
        number=6006,
    ),
    Entry(
        "GRAPH_ERROR_UNCONNECTED_NODE",
        3,
        "A node reads a tensor that no node, input or constant provides.",
        "Add nodes in topological order and check the spelling of the tensor that the message "
        "names.",
        number=6007,
    ),
    Entry(
        "GRAPH_ERROR_CREATE_FAILED",
        7,
        "The backend could not create an empty graph.",
        "No node is involved yet; check the graph's options and the number of graphs in the "
        "context.",
        number=6020,
    ),
    Entry(
        "GRAPH_ERROR_OPTIMIZATION_FAILED",
        7,
        "The backend failed while it was rewriting the graph to make it faster.",
        "Finalize with a lower optimization level, and report the graph to the backend's authors.",
        number=6021,
    ),
    Entry(
        "GRAPH_ERROR_FINALIZE_FAILED",
        7,
        "The backend could not prepare the graph for running.",
        "Look for the first rejected node: this error's cause names it, or an earlier 6005 or "
        "3110 does; an op with no implementation for its types, or an op package not on the "
        "device, shows up only here.",
        number=6022,
    ),
    Entry(
        "GRAPH_ERROR_GRAPH_NOT_FINALIZED",
        7,
        "The graph was executed or saved before it was finalized.",
        "Call finalize after the last node was added and check that it succeeded.",
        number=6023,
    ),
    Entry(
        "GRAPH_ERROR_GRAPH_FINALIZED",
        7,
        "The graph was to be changed after it had been finalized.",
        "Add all nodes and tensors before finalize; to change a finished graph, compose it again.",
        number=6024,
    ),
    Entry(
        "GRAPH_ERROR_EXECUTION_ASYNC_FIFO_FULL",
        7,
        "More asynchronous runs are waiting than the graph's queue can hold.",
        "Wait for some runs to complete before submitting more, or raise the queue depth.",
        number=6025,
    ),
    Entry(
        "GRAPH_ERROR_SIGNAL_IN_USE",
        7,
        "The signal passed to this graph call is in use by another call.",
        "Use one signal per active call, or wait for the other call to end.",
        number=6030,
    ),
    Entry(
        "GRAPH_ERROR_ABORTED",
        7,
        "A finalize or execute was stopped by a signal from the caller.",
        "The outputs are not valid; run again if the stop was not intended.",
        number=6031,
    ),
    Entry(
        "GRAPH_ERROR_PROFILE_IN_USE",
        7,
        "The profile is bound to another graph.",
        "Use a separate profile for each graph that is profiled continuously.",
        number=6032,
    ),
    Entry(
        "GRAPH_ERROR_TIMED_OUT",
        7,
        "A finalize or execute took longer than the time limit set.",
        "Raise the limit; if the time varies a lot, look for other work on the device or a graph "
        "of higher priority.",
        number=6033,
    ),
    Entry(
        "GRAPH_ERROR_SUBGRAPH",
        7,
        "The call is not allowed on a subgraph.",
        "Make the call on the graph that contains the subgraph.",
        number=6034,
    ),
    Entry(
        "GRAPH_ERROR_DISABLED",
        7,
        "The graph exists in the context binary but was not enabled when the context was loaded.",
        "Load the context again with this graph in `enable_graphs`, or without that option.",
        number=6035,
    ),
    Entry(
        "GRAPH_ERROR_DYNAMIC_TENSOR_SHAPE",
        3,
        "A shape at run time is outside the range of the tensor's dynamic dimensions.",
        "Keep each dimension within its declared maximum, or convert the model with the shape "
        "needed.",
        number=6036,
    ),
    Entry(
        "GRAPH_ERROR_TENSOR_SPARSITY",
        3,
        "The sparsity information of a tensor is wrong or does not suit its data.",
        "Check the sparse layout and its counts, or give the tensor in dense form.",
        number=6037,
    ),
    Entry(
        "GRAPH_ERROR_EARLY_TERMINATION",
        7,
        "The run ended early because of a condition in the graph.",
        "Later outputs were not computed; read only those before the condition, or disable early "
        "termination.",
        number=6038,
    ),
    Entry(
        "GRAPH_ERROR_INVALID_CONTEXT",
        7,
        "The context that the graph belongs to is freed or not usable.",
        "Keep the context open while its graphs are in use, and look for an earlier error on the "
        "context.",
        number=6039,
    ),
    # Tensor
    Entry(
        "TENSOR_ERROR_INVALID_HANDLE",
        7,
        "A tensor was created in a graph or context whose handle is not valid.",
        "Check that the graph or context was created without error and is still open.",
        number=7001,
    ),
    Entry(
        "TENSOR_ERROR_DOES_NOT_EXIST",
        3,
        "No tensor with this id or name is known to the graph or context.",
        "Create the tensor first, and use the id that its creation returned.",
        number=7002,
    ),
    Entry(
        "TENSOR_ERROR_ALREADY_EXISTS",
        3,
        "The graph already has a tensor of this name.",
        "Give every tensor of a graph a unique name.",
        number=7003,
    ),
    Entry(
        "TENSOR_ERROR_INVALID_TENSOR_PARAM",
        3,
        "A property of the tensor is invalid, such as its shape, type or encoding.",
        "Check the rank and shape, that constant data have the size of shape and type, and that "
        "the encoding fits the type.",
        number=7004,
    ),
    Entry(
        "TENSOR_ERROR_UNSUPPORTED_TENSOR_PARAM",
        3,
        "A property of the tensor is valid but not supported by the backend.",
        "The message names the property; often the model must be quantized with another data type "
        "or encoding, or use another memory type.",
        number=7005,
    ),
    Entry(
        "TENSOR_ERROR_NAME_HASH_COLLISION",
        3,
        "Two different tensor names map to the same identifier in the backend.",
        "Rename one of the two tensors.",
        number=7006,
    ),
    Entry(
        "TENSOR_ERROR_INCOMPATIBLE_TENSOR_UPDATE",
        3,
        "New data for an updateable tensor do not fit the tensor in the graph.",
        "Keep the shape and type that the tensor had at finalize; check that an adapter belongs "
        "to this model.",
        number=7007,
    ),
    Entry(
        "TENSOR_ERROR_UNSUPPORTED_FEATURE",
        7,
        "The backend does not support this tensor call or kind.",
        "Check the tensor capabilities of the backend; updateable and context tensors are "
        "optional.",
        number=1000,
    ),
    # Memory registration
    Entry(
        "MEM_ERROR_NOT_SUPPORTED",
        7,
        "The backend cannot register memory of the caller.",
        "Pass plain arrays as inputs and outputs; this costs a copy, and results are the same.",
        number=1000,
    ),
    Entry(
        "MEM_ERROR_INVALID_ARGUMENT",
        7,
        "A memory descriptor is missing or incomplete.",
        "Pass data type, shape, memory type and the buffer's descriptor for each registration.",
        number=8000,
    ),
    Entry(
        "MEM_ERROR_INVALID_HANDLE",
        7,
        "The memory handle is empty or was deregistered.",
        "Register the buffer again and keep the registration until the last run that uses it is "
        "over.",
        number=8001,
    ),
    Entry(
        "MEM_ERROR_ALREADY_REGISTERED",
        7,
        "The same buffer is registered with this context already.",
        "Use the handle from the first registration, or deregister that one first.",
        number=8002,
    ),
    Entry(
        "MEM_ERROR_MAPPING",
        7,
        "The buffer could not be mapped for the device.",
        "Check that the buffer comes from a shareable allocator and that its descriptor is open; "
        "very large buffers may have to be split.",
        number=8003,
    ),
    Entry(
        "MEM_ERROR_INVALID_SHAPE",
        3,
        "The shape of a buffer does not match the tensor or the buffer's size.",
        "Use the tensor's shape and a buffer that is large enough for it.",
        number=8004,
    ),
    Entry(
        "MEM_ERROR_UNSUPPORTED_MEMTYPE",
        7,
        "The backend does not support memory of this type.",
        "Choose a memory type from the backend's capabilities, or pass plain arrays.",
        number=8005,
    ),
    # Signals
    Entry(
        "SIGNAL_ERROR_UNSUPPORTED",
        7,
        "The backend does not support signals, or not of this type.",
        "Call without a signal; the call then cannot be stopped or limited in time.",
        number=1000,
    ),
    Entry(
        "SIGNAL_ERROR_SIGNAL_IN_USE",
        7,
        "The signal is bound to an active call, so it cannot be shared, changed or freed.",
        "Wait for that call to end, or create a second signal.",
        number=9000,
    ),
    Entry(
        "SIGNAL_ERROR_SIGNAL_IDLE",
        7,
        "The signal was triggered while no call was using it.",
        "Nothing was stopped: the call had ended or not begun. Trigger only while the call is "
        "active.",
        number=9001,
    ),
    Entry(
        "SIGNAL_ERROR_INVALID_ARGUMENT",
        7,
        "The configuration of a signal is missing or not valid.",
        "Pass a signal type, and for a timeout a duration above zero.",
        number=9002,
    ),
    Entry(
        "SIGNAL_ERROR_INVALID_HANDLE",
        7,
        "The signal handle is empty, was freed, or is not one of this backend's.",
        "Create the signal on the backend that runs the call and keep it until the call ends.",
        number=9003,
    ),
    Entry(
        "SIGNAL_ERROR_TIMEOUT",
        7,
        "The time limit of a signal ran out.",
        "Raise the limit, or profile the graph to see what takes the time.",
        number=9004,
    ),
    Entry(
        "SIGNAL_ERROR_INCOMPATIBLE_SIGNAL_TYPE",
        7,
        "The signal is of a type that this call does not accept.",
        "Use an abort signal to stop a call and a timeout signal to limit its time.",
        number=9005,
    ),
    Entry(
        "SIGNAL_ERROR_MEM_ALLOC",
        7,
        "There was no memory left to create a signal.",
        "Free signals that are not used any more; a signal is small, so the machine is probably "
        "short of memory.",
        number=1002,
    ),
    # Error queries
    Entry(
        "ERROR_INVALID_ARGUMENT",
        7,
        "A query about an error has no destination for the result.",
        "Pass a valid destination for the message or the info.",
        number=10000,
    ),
    Entry(
        "ERROR_INVALID_ERROR_HANDLE",
        7,
        "The queried number is not an error code of the backend.",
        "Pass the value exactly as a call returned it; `dovetail explain NUMBER` uses its low 16 "
        "bits.",
        number=10001,
    ),
    # Log
    Entry(
        "LOG_ERROR_MEM_ALLOC",
        7,
        "There was no memory left to create a logger.",
        "Free memory on the machine; the logger itself needs very little.",
        number=1002,
    ),
    Entry(
        "LOG_ERROR_INITIALIZATION",
        7,
        "The logger could not be started.",
        "Check that its destination can be written to, or use the default one.",
        number=11002,
    ),
    Entry(
        "LOG_ERROR_INVALID_ARGUMENT",
        7,
        "A log level or callback is not valid.",
        "Use a level from error, warn, info, verbose and debug, and a callback that can be called.",
        number=11003,
    ),
    Entry(
        "LOG_ERROR_INVALID_HANDLE",
        7,
        "The logger's handle is empty or was freed.",
        "Free the logger last, after the backend and device that write to it.",
        number=11004,
    ),
    # Profile
    Entry(
        "PROFILE_ERROR_UNSUPPORTED",
        7,
        "The backend does not support this profiling level or option.",
        "Use the level basic, which most backends have, or omit the option.",
        number=1000,
    ),
    Entry(
        "PROFILE_ERROR_INVALID_ARGUMENT",
        7,
        "A profiling call got an argument that is missing or out of range.",
        "Check the level, the event id and the destination of the result.",
        number=1004,
    ),
    Entry(
        "PROFILE_ERROR_MEM_ALLOC",
        7,
        "There was no memory left for profiling events.",
        "Limit the number of events, profile fewer runs, or use the level basic.",
        number=1002,
    ),
    Entry(
        "PROFILE_ERROR_INVALID_HANDLE",
        7,
        "The profile's handle is empty or was freed.",
        "Read the events before freeing the profile, and free it after the graphs that use it.",
        number=12000,
    ),
    Entry(
        "PROFILE_ERROR_HANDLE_IN_USE",
        7,
        "The profile is in use, so it cannot be freed or configured.",
        "Wait for the runs that it observes to end, or detach it from its graph first.",
        number=12001,
    ),
    Entry(
        "PROFILE_ERROR_INCOMPATIBLE_EVENT",
        7,
        "The event is not of the form that this query reads.",
        "Use the extended query for events that carry a timestamp or an object, and the plain one "
        "for the others.",
        number=12002,
    ),
    # Device
    Entry(
        "DEVICE_ERROR_UNSUPPORTED_FEATURE",
        7,
        "The backend does not support device calls, or not this one.",
        "Create contexts without a device; the backend then uses its default one.",
        number=1000,
    ),
    Entry(
        "DEVICE_ERROR_MEM_ALLOC",
        7,
        "There was no memory left to open the device.",
        "Close other sessions on the device, also those of other processes.",
        number=1002,
    ),
    Entry(
        "DEVICE_ERROR_INVALID_ARGUMENT",
        7,
        "A device call got an argument that is missing or out of range.",
        "Check device and core ids against the platform information of the backend.",
        number=1004,
    ),
    Entry(
        "DEVICE_ERROR_INVALID_HANDLE",
        7,
        "The device handle is empty, was freed, or belongs to another backend.",
        "Check that the device was created without error and outlives its contexts.",
        number=14000,
    ),
    Entry(
        "DEVICE_ERROR_INVALID_CONFIG",
        2,
        "The device cannot be created with these options.",
        "Check device id, core ids, SoC model and architecture: they must describe one chip, "
        "without emulation the one present. If all are omitted, the backend detects it.",
        number=14001,
    ),
    Entry(
        "DEVICE_ERROR_HARDWARE_UNAVAILABLE",
        7,
        "The accelerator is absent, switched off or in use.",
        "`dovetail doctor` shows what the backend finds; wake or free the device, or use an "
        "emulating backend.",
        number=14002,
    ),
    Entry(
        "DEVICE_ERROR_ASSOCIATED_TO_CONTEXT",
        7,
        "The device was freed while contexts still use it.",
        "Free every context of the device first.",
        number=14003,
    ),
    # Global config
    Entry(
        "GLOBAL_CONFIG_ERROR_INVALID_CONFIG",
        2,
        "A setting for the whole process is unknown or has an unsupported value.",
        "Correct the setting named, and set it before the first backend is created.",
        number=15000,
    ),
    # Interface: how the table of calls is obtained
    Entry(
        "INTERFACE_ERROR_NOT_SUPPORTED",
        7,
        "The library does not offer its calls through this interface.",
        "Use a backend library of a release that has the interface; in Dovetail backends are "
        "found by name instead.",
        number=1000,
    ),
    Entry(
        "INTERFACE_ERROR_INVALID_PARAMETER",
        7,
        "The query for the table of calls has no destination for it.",
        "Pass valid destinations for the list of providers and their number.",
        number=1004,
    ),
    # System library: shared calls
    Entry(
        "SYSTEM_COMMON_ERROR_UNSUPPORTED_FEATURE",
        7,
        "The system library does not have this call.",
        "Use a newer release of the system library, or do not use the call.",
        number=1000,
    ),
    Entry(
        "SYSTEM_COMMON_ERROR_INVALID_HANDLE",
        7,
        "A handle of the system library is empty or was freed.",
        "Keep the handle open while the information read through it is in use.",
        number=30000,
    ),
    Entry(
        "SYSTEM_COMMON_ERROR_INVALID_ARGUMENT",
        7,
        "A call of the system library got an argument that is missing or malformed.",
        "Check the arguments of the call that the message names.",
        number=30001,
    ),
    # System library: looking into context binaries
    Entry(
        "SYSTEM_CONTEXT_ERROR_UNSUPPORTED_FEATURE",
        7,
        "The system library cannot answer this question about a context binary.",
        "Use a newer release, or create the context and query it.",
        number=1000,
    ),
    Entry(
        "SYSTEM_CONTEXT_ERROR_INVALID_HANDLE",
        7,
        "The handle for reading context binaries is empty or was freed.",
        "Create it again, and copy the information before freeing it.",
        number=30000,
    ),
    Entry(
        "SYSTEM_CONTEXT_ERROR_INVALID_ARGUMENT",
        7,
        "The context binary to inspect is missing or has the size zero.",
        "Check that the file was read completely and that its size was passed on.",
        number=30001,
    ),
    Entry(
        "SYSTEM_CONTEXT_ERROR_OPERATION_FAILED",
        7,
        "The information in a context binary could not be extracted.",
        "Most often the file was created by a newer release than the one reading it: read it with "
        "that release, or create it again with this one.",
        number=30002,
    ),
    Entry(
        "SYSTEM_CONTEXT_ERROR_MALFORMED_BINARY",
        3,
        "The data are not a context binary, or a damaged one.",
        "Check the first bytes: a file wrapped by another tool, or created for another backend, "
        "starts with another mark. Unwrap it, fetch it again, or create it again for this backend.",
        number=30010,
    ),
    # System library: model files of the SDK (DLC)
    Entry(
        "SYSTEM_DLC_ERROR_UNSUPPORTED_FEATURE",
        7,
        "The system library cannot do this with a DLC file.",
        "Convert the source model here instead; DLC files are not read by Dovetail.",
        number=1000,
    ),
    Entry(
        "SYSTEM_DLC_ERROR_INVALID_HANDLE",
        7,
        "The handle of an opened DLC file is empty or was freed.",
        "Open the DLC file again and keep it open while its graphs are composed.",
        number=30000,
    ),
    Entry(
        "SYSTEM_DLC_ERROR_INVALID_ARGUMENT",
        7,
        "A call on a DLC file got an argument that is missing or malformed.",
        "Check the path, the logger and the destinations of results passed to the call.",
        number=30001,
    ),
    Entry(
        "SYSTEM_DLC_ERROR_OPERATION_FAILED",
        7,
        "A DLC file was opened but graphs could not be composed from it.",
        "Check that the backend has all ops of the model and that the file is not from a newer "
        "release.",
        number=30002,
    ),
    Entry(
        "SYSTEM_DLC_ERROR_MALFORMED_BINARY",
        3,
        "The file is not a DLC file, or a damaged one.",
        "Fetch or convert it again; a transfer in text mode and a cut download are common causes.",
        number=30010,
    ),
    # System library: profiles
    Entry(
        "SYSTEM_PROFILE_ERROR_UNSUPPORTED_FEATURE",
        7,
        "The system library cannot write or read this kind of profile data.",
        "Use a release that knows it, or export the profile as JSON or CSV.",
        number=1000,
    ),
    Entry(
        "SYSTEM_PROFILE_ERROR_INVALID_HANDLE",
        7,
        "The handle of a profile file is empty or was closed.",
        "Open the profile file again, and write all events before closing it.",
        number=30000,
    ),
    Entry(
        "SYSTEM_PROFILE_ERROR_INVALID_ARGUMENT",
        7,
        "A call on a profile file got an argument that is missing or malformed.",
        "Check the path, the header and the list of events given.",
        number=30001,
    ),
    Entry(
        "SYSTEM_PROFILE_ERROR_MEM_ALLOC",
        7,
        "There was no memory left to handle profile data.",
        "Profile fewer runs or at a lower level, so that there are fewer events.",
        number=31000,
    ),
    # System library: its interface
    Entry(
        "SYSTEM_INTERFACE_ERROR_NOT_SUPPORTED",
        7,
        "The system library does not offer its calls through this interface.",
        "Use the system library of the same release as the backend.",
        number=1000,
    ),
    Entry(
        "SYSTEM_INTERFACE_ERROR_INVALID_PARAMETER",
        7,
        "The query for the system library's table of calls has no destination for it.",
        "Pass valid destinations for the list of system providers and their number.",
        number=1004,
    ),
    # System library: tensors
    Entry(
        "SYSTEM_TENSOR_ERROR_UNSUPPORTED_FEATURE",
        7,
        "The system library cannot compute this property of a tensor.",
        "Compute it from shape and data type; only dense tensors are supported.",
        number=1000,
    ),
    Entry(
        "SYSTEM_TENSOR_ERROR_INVALID_ARGUMENT",
        7,
        "A tensor query of the system library got an argument that is missing.",
        "Pass both the tensor and a destination for the result.",
        number=30001,
    ),
    Entry(
        "SYSTEM_TENSOR_ERROR_INVALID_TENSOR",
        3,
        "The tensor description is not valid.",
        "Check the version of its structure, its rank, shape and data type.",
        number=30002,
    ),
    # Performance infrastructure of the HTP
    Entry(
        "HTP_PERF_INFRASTRUCTURE_ERROR_INVALID_HANDLE_PTR",
        7,
        "The power-config id is empty or was destroyed.",
        "Create a power-config id for the device and core first, and keep it while it is used.",
        number=13000,
    ),
    Entry(
        "HTP_PERF_INFRASTRUCTURE_ERROR_INVALID_INPUT",
        7,
        "A power or performance call got a value that is missing or out of range.",
        "Check voltage corners, latencies and thread counts against their allowed ranges.",
        number=13001,
    ),
    Entry(
        "HTP_PERF_INFRASTRUCTURE_ERROR_UNSUPPORTED_CONFIG",
        2,
        "The chip does not support this power or performance option.",
        "Choose a named performance profile; these omit what a chip lacks.",
        number=13002,
    ),
    Entry(
        "HTP_PERF_INFRASTRUCTURE_ERROR_TRANSPORT",
        7,
        "A power request did not reach the accelerator.",
        "Check the connection to the device as for 1007, then open the session again.",
        number=13003,
    ),
    Entry(
        "HTP_PERF_INFRASTRUCTURE_ERROR_UNSUPPORTED",
        7,
        "This platform has no control over power and performance.",
        "Omit the performance settings; results do not depend on them.",
        number=13004,
    ),
    Entry(
        "HTP_PERF_INFRASTRUCTURE_ERROR_MEM_ALLOC",
        7,
        "There was no memory left for a power or performance request.",
        "Destroy power-config ids that are not used any more.",
        number=13005,
    ),
    Entry(
        "HTP_PERF_INFRASTRUCTURE_ERROR_FAILED",
        7,
        "The accelerator rejected the power request.",
        "Thermal limits and other users' votes can prevent it: try a lower performance profile or "
        "wait for the device to cool.",
        number=13006,
    ),
)
