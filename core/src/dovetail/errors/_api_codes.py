"""Codes of the runtime API in use: names and numbers are QNN's, the sentences are ours.

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
        "COMMON_ERROR_RESOURCE_UNAVAILABLE",
        7,
        "A resource that the call needs is in use elsewhere.",
        "Free the contexts and sessions that are not used any more, or wait and try again.",
        number=1010,
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
    # Backend
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
        "BACKEND_ERROR_OP_PACKAGE_NOT_FOUND",
        4,
        "The op package that a node names, or that is being registered, was not found.",
        "`dovetail plugins` lists the op packages installed; install the missing one or correct "
        "the package name in the model. With the SDK on a device, check that its library was "
        "copied there.",
        number=4005,
    ),
    Entry(
        "BACKEND_ERROR_INVALID_HANDLE",
        7,
        "The backend handle is empty, was freed, or belongs to another backend.",
        "Keep the backend open for as long as its contexts live; the first failure before this "
        "one is usually the real cause.",
        number=4011,
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
        "There is not enough memory for what the context was asked to hold.",
        "Free contexts and sessions, or use smaller tensors.",
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
        "CONTEXT_ERROR_INVALID_HANDLE",
        7,
        "The context handle is empty, was freed, or belongs to another backend.",
        "Check that creating the context succeeded and that nothing freed it before this call.",
        number=5002,
    ),
    Entry(
        "CONTEXT_ERROR_CREATE_FROM_BINARY",
        5,
        "The backend failed to restore the graphs of a context binary.",
        "Create the binary again with this version of the backend; if that fails too, report the "
        "error to the authors of the backend.",
        number=5005,
    ),
    Entry(
        "CONTEXT_ERROR_GET_BINARY_FAILED",
        7,
        "The context cannot be stored: it has no graphs, or the backend failed.",
        "Compose and finalize the graphs first.",
        number=5007,
    ),
    Entry(
        "CONTEXT_ERROR_BINARY_CONFIGURATION",
        5,
        "The backend failed to use a section of a context binary.",
        "Apply sections to the binary that they were created with.",
        number=5008,
    ),
    Entry(
        "CONTEXT_ERROR_INVALID_CONFIG",
        2,
        "The settings of a context do not match its context binary.",
        "`enable_graphs` names graphs of the binary: `dovetail inspect FILE` lists them.",
        number=5010,
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
        "GRAPH_ERROR_GENERAL",
        7,
        "The graph call failed for a reason without a more specific code.",
        "Run the model on the cpu backend to see whether the model is at fault; if it runs there, "
        "bisect the graph to find the node.",
        number=1100,
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
        "GRAPH_ERROR_TIMED_OUT",
        7,
        "A finalize or execute took longer than the time limit set.",
        "Raise the limit; if the time varies a lot, look for other work on the device or a graph "
        "of higher priority.",
        number=6033,
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
        "The graph or context does not have the tensor.",
        "Pass a tensor that was created in this graph or context; graphs and contexts have calls "
        "of their own for the same purpose.",
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
        "Kind, type, shape, encoding or data of a tensor are impossible, or do not go together.",
        "Correct the fields that the message lists.",
        number=7004,
    ),
    Entry(
        "TENSOR_ERROR_INCOMPATIBLE_TENSOR_UPDATE",
        3,
        "An update does not match its tensor, or the tensor cannot be updated.",
        "Keep type and shape of the tensor; only data and encodings of tensors of an UPDATEABLE "
        "kind can be replaced.",
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
        "MEM_ERROR_UNSUPPORTED_MEMTYPE",
        7,
        "The backend cannot register memory of this kind.",
        "Register an array in the host's memory, or choose a backend with memory of its own.",
        number=8005,
    ),
    Entry(
        "MEM_ERROR_INVALID_HANDLE",
        7,
        "The memory handle is empty or was deregistered.",
        "Register the buffer again and keep the registration until the last run that uses it is "
        "over.",
        number=8001,
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
        "SIGNAL_ERROR_INCOMPATIBLE_SIGNAL_TYPE",
        7,
        "The signal is of a type that this call does not accept.",
        "Use an abort signal to stop a call and a timeout signal to limit its time.",
        number=9005,
    ),
    # Profile
    Entry(
        "LOG_ERROR_INVALID_HANDLE",
        7,
        "The log handle is empty or was freed.",
        "Create another log handle.",
        number=11004,
    ),
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
        "The profile has no such event.",
        "Get the events first; an event's path has an index for each level.",
        number=1004,
    ),
    Entry(
        "PROFILE_ERROR_INVALID_HANDLE",
        7,
        "The profile's handle is empty or was freed.",
        "Read the events before freeing the profile, and free it after the graphs that use it.",
        number=12000,
    ),
    # Device
    Entry(
        "DEVICE_ERROR_HARDWARE_UNAVAILABLE",
        7,
        "The backend cannot find out which devices it has.",
        "Run `dovetail doctor`; it shows what each backend finds on this machine.",
        number=14002,
    ),
    Entry(
        "DEVICE_ERROR_INVALID_HANDLE",
        7,
        "The device handle is empty, was freed, or belongs to another backend.",
        "Check that the device was created without error and outlives its contexts.",
        number=14000,
    ),
    Entry(
        "DEVICE_ERROR_ASSOCIATED_TO_CONTEXT",
        7,
        "The device was freed while contexts still use it.",
        "Free every context of the device first.",
        number=14003,
    ),
)
