"""Codes of QNN that nothing here raises: names and numbers, explained by their family.

They come from the SDK's own libraries, or from a backend of a third party.

Source: the public QNN API reference, its error enumerations.
"""

from __future__ import annotations

from collections.abc import Iterator

from dovetail.errors._entry import Entry

_EXIT_CODE = 7  # unless the line of a code says otherwise

# Prefix of the codes -> (what they are about, what usually helps)
_FAMILIES = {
    "COMMON": (
        "any call",
        "Read the system's log at the time of the call. Usual causes: libraries of different "
        "releases, a library, driver or device node that is missing, or a connection that broke: "
        "close the session and open a new one.",
    ),
    "OP_PACKAGE": (
        "an op package",
        "Use a package built for this backend and release, registered once, before its ops are "
        "used. For a rejected node (3110), compare package, op, types, ranks and params with the "
        "op's definition, or try the node on the cpu backend and change one of them at a time.",
    ),
    "BACKEND": (
        "a backend",
        "`dovetail doctor` tries each backend alone, `dovetail plugins` lists op packages. Check "
        "the options at the path in the message, and that op packages are found, are built for "
        "this release and are registered once.",
    ),
    "SAVER": (
        "the Saver, which records calls",
        "Set its output folder and options before any other call. Results of queries are known "
        "only when the trace is replayed on a real backend.",
    ),
    "CONTEXT": (
        "contexts and context binaries",
        "Finalize all graphs before saving. If a binary cannot be loaded, `dovetail inspect FILE` "
        "shows its versions and target: prepare the model again for the SoC profile and the "
        "release that it runs on. Names in `enable_graphs` must be those of the file.",
    ),
    "GRAPH": (
        "a graph",
        "Find the first rejected node, and run the model on the cpu backend to see whether the "
        "model is at fault. Compare inputs and outputs with `dovetail inspect MODEL`, and load a "
        "context binary with the graph enabled.",
    ),
    "TENSOR": (
        "a tensor",
        "Check its name, rank, shape, the size of its data, and that type, encoding and memory "
        "type are ones that the backend supports; an update keeps the shape and type.",
    ),
    "MEM": (
        "registration of memory",
        "Register each buffer once, from a shareable allocator, with the tensor's shape and a "
        "memory type that the backend supports; or pass plain arrays, which costs a copy.",
    ),
    "SIGNAL": (
        "a signal",
        "Raise the time limit, or profile the graph to see what takes the time.",
    ),
    "ERROR": (
        "queries about an error",
        "Pass the value exactly as a call returned it, and a valid destination; `dovetail explain "
        "NUMBER` uses the low 16 bits.",
    ),
    "LOG": (
        "the logger",
        "Use a level from error, warn, info, verbose and debug and a destination that can be "
        "written to, and free the logger last.",
    ),
    "PROFILE": (
        "a profile",
        "Use the level basic or profile fewer runs, wait for the runs that are profiled to end, "
        "and use the extended query for events with a timestamp or an object.",
    ),
    "DEVICE": (
        "a device",
        "`dovetail doctor` shows what the backend finds. Device id, core ids, SoC model and "
        "architecture must describe one chip, without emulation the one present; if all are "
        "omitted, the backend detects it.",
    ),
    "GLOBAL_CONFIG": (
        "settings for the whole process",
        "Correct the setting named, and set it before the first backend is created.",
    ),
    "INTERFACE": (
        "the table of calls of a backend's library",
        "Use a library of a release that has the interface, and pass valid destinations; in "
        "Dovetail backends are found by name instead.",
    ),
    "SYSTEM": (
        "the SDK's system library, which reads files and profiles",
        "Use the system library of the release that created the file, keep its handles open, and "
        "fetch or create damaged files again. Dovetail reads no DLC files: convert their source "
        "model.",
    ),
    "HTP_PERF_INFRASTRUCTURE": (
        "power and performance settings of the HTP",
        "Omit the settings, on which results do not depend, or choose a named performance profile; "
        "thermal limits and other users of the device can prevent a setting.",
    ),
}

# What usually helps with the numbers that have one meaning in every family
_SHARED = {
    1000: "Query the capabilities first; use another backend or release, or omit the option.",
    1002: "The message says which memory: free contexts and sessions, enable fewer graphs of a "
    "context, use smaller tiles, batches or types for a large op, or split the model.",
    1004: "Check the arguments of the call; in a recorded trace it is the last one.",
    1006: "`dovetail doctor` lists the backends that can start on this machine; use one of them.",
    1100: "Run again with `--log-level debug`; try the cpu backend, which may find the cause.",
}

# Name, QNN's number, exit code
_CODES = """
COMMON_ERROR_MEM_ALLOC 1002
COMMON_ERROR_SYSTEM 1003
COMMON_ERROR_PLATFORM_NOT_SUPPORTED 1006
COMMON_ERROR_SYSTEM_COMMUNICATION 1007
COMMON_ERROR_INCOMPATIBLE_BINARIES 1008 5
COMMON_ERROR_LOADING_BINARIES 1009
COMMON_ERROR_SYSTEM_COMMUNICATION_FATAL 1011
COMMON_ERROR_GENERAL 1100
OP_PACKAGE_ERROR_UNSUPPORTED_FEATURE 1000
OP_PACKAGE_ERROR_LIBRARY_ALREADY_INITIALIZED 3000 6
OP_PACKAGE_ERROR_LIBRARY_NOT_INITIALIZED 3001 6
OP_PACKAGE_ERROR_INVALID_HANDLE 3002
OP_PACKAGE_ERROR_INVALID_INFRASTRUCTURE 3100 6
OP_PACKAGE_ERROR_INVALID_INFO 3101 6
OP_PACKAGE_ERROR_VALIDATION_FAILURE 3110 4
OP_PACKAGE_ERROR_INVALID_ARGUMENT 3200
OP_PACKAGE_ERROR_GENERAL 1100
BACKEND_ERROR_MEM_ALLOC 1002
BACKEND_ERROR_UNSUPPORTED_PLATFORM 1006
BACKEND_ERROR_INVALID_ARGUMENT 4004
BACKEND_ERROR_OP_PACKAGE_IF_PROVIDER_NOT_FOUND 4006 6
BACKEND_ERROR_OP_PACKAGE_REGISTRATION_FAILED 4007 6
BACKEND_ERROR_OP_PACKAGE_UNSUPPORTED_VERSION 4008 5
BACKEND_ERROR_OP_PACKAGE_DUPLICATE 4009 6
BACKEND_ERROR_INCONSISTENT_CONFIG 4010 2
BACKEND_ERROR_INVALID_CONFIG 4012 2
SAVER_ERROR_DUMMY_RETVALUE 4950
SAVER_ERROR_ALREADY_INSTANTIATED 4951
CONTEXT_ERROR_CTX_DOES_NOT_EXIST 5001
CONTEXT_ERROR_NOT_FINALIZED 5003
CONTEXT_ERROR_BINARY_VERSION 5004 5
CONTEXT_ERROR_GET_BINARY_SIZE_FAILED 5006
CONTEXT_ERROR_SET_PROFILE 5009
CONTEXT_ERROR_BINARY_SUBOPTIMAL 5011 5
CONTEXT_ERROR_ABORTED 5012
CONTEXT_ERROR_TIMED_OUT 5013
CONTEXT_ERROR_INCREMENT_INVALID_BUFFER 5014
GRAPH_ERROR_MEM_ALLOC 1002
GRAPH_ERROR_INVALID_ARGUMENT 6000
GRAPH_ERROR_SET_PROFILE 6006
GRAPH_ERROR_UNCONNECTED_NODE 6007 3
GRAPH_ERROR_CREATE_FAILED 6020
GRAPH_ERROR_OPTIMIZATION_FAILED 6021
GRAPH_ERROR_PROFILE_IN_USE 6032
GRAPH_ERROR_SUBGRAPH 6034
GRAPH_ERROR_DISABLED 6035
GRAPH_ERROR_DYNAMIC_TENSOR_SHAPE 6036 3
GRAPH_ERROR_TENSOR_SPARSITY 6037 3
GRAPH_ERROR_EARLY_TERMINATION 6038
GRAPH_ERROR_INVALID_CONTEXT 6039
TENSOR_ERROR_UNSUPPORTED_TENSOR_PARAM 7005 3
TENSOR_ERROR_NAME_HASH_COLLISION 7006 3
MEM_ERROR_ALREADY_REGISTERED 8002
MEM_ERROR_MAPPING 8003
MEM_ERROR_INVALID_SHAPE 8004 3
SIGNAL_ERROR_TIMEOUT 9004
SIGNAL_ERROR_MEM_ALLOC 1002
ERROR_INVALID_ARGUMENT 10000
ERROR_INVALID_ERROR_HANDLE 10001
LOG_ERROR_MEM_ALLOC 1002
LOG_ERROR_INITIALIZATION 11002
LOG_ERROR_INVALID_ARGUMENT 11003
PROFILE_ERROR_MEM_ALLOC 1002
PROFILE_ERROR_HANDLE_IN_USE 12001
PROFILE_ERROR_INCOMPATIBLE_EVENT 12002
DEVICE_ERROR_UNSUPPORTED_FEATURE 1000
DEVICE_ERROR_MEM_ALLOC 1002
DEVICE_ERROR_INVALID_ARGUMENT 1004
DEVICE_ERROR_INVALID_CONFIG 14001 2
GLOBAL_CONFIG_ERROR_INVALID_CONFIG 15000 2
INTERFACE_ERROR_NOT_SUPPORTED 1000
INTERFACE_ERROR_INVALID_PARAMETER 1004
SYSTEM_COMMON_ERROR_UNSUPPORTED_FEATURE 1000
SYSTEM_COMMON_ERROR_INVALID_HANDLE 30000
SYSTEM_COMMON_ERROR_INVALID_ARGUMENT 30001
SYSTEM_CONTEXT_ERROR_UNSUPPORTED_FEATURE 1000
SYSTEM_CONTEXT_ERROR_INVALID_HANDLE 30000
SYSTEM_CONTEXT_ERROR_INVALID_ARGUMENT 30001
SYSTEM_CONTEXT_ERROR_OPERATION_FAILED 30002
SYSTEM_CONTEXT_ERROR_MALFORMED_BINARY 30010 3
SYSTEM_DLC_ERROR_UNSUPPORTED_FEATURE 1000
SYSTEM_DLC_ERROR_INVALID_HANDLE 30000
SYSTEM_DLC_ERROR_INVALID_ARGUMENT 30001
SYSTEM_DLC_ERROR_OPERATION_FAILED 30002
SYSTEM_DLC_ERROR_MALFORMED_BINARY 30010 3
SYSTEM_PROFILE_ERROR_UNSUPPORTED_FEATURE 1000
SYSTEM_PROFILE_ERROR_INVALID_HANDLE 30000
SYSTEM_PROFILE_ERROR_INVALID_ARGUMENT 30001
SYSTEM_PROFILE_ERROR_MEM_ALLOC 31000
SYSTEM_INTERFACE_ERROR_NOT_SUPPORTED 1000
SYSTEM_INTERFACE_ERROR_INVALID_PARAMETER 1004
SYSTEM_TENSOR_ERROR_UNSUPPORTED_FEATURE 1000
SYSTEM_TENSOR_ERROR_INVALID_ARGUMENT 30001
SYSTEM_TENSOR_ERROR_INVALID_TENSOR 30002 3
HTP_PERF_INFRASTRUCTURE_ERROR_INVALID_HANDLE_PTR 13000
HTP_PERF_INFRASTRUCTURE_ERROR_INVALID_INPUT 13001
HTP_PERF_INFRASTRUCTURE_ERROR_UNSUPPORTED_CONFIG 13002 2
HTP_PERF_INFRASTRUCTURE_ERROR_TRANSPORT 13003
HTP_PERF_INFRASTRUCTURE_ERROR_UNSUPPORTED 13004
HTP_PERF_INFRASTRUCTURE_ERROR_MEM_ALLOC 13005
HTP_PERF_INFRASTRUCTURE_ERROR_FAILED 13006
"""


def _sdk_codes() -> Iterator[Entry]:
    for line in _CODES.strip().splitlines():
        name, number, *exit_code = line.split()
        family = max((f for f in _FAMILIES if name.startswith(f"{f}_")), key=len)
        subject, remedy = _FAMILIES[family]
        words = name.removeprefix(f"{family}_").replace("ERROR_", "").replace("_", " ").lower()
        yield Entry(
            name,
            int(exit_code[0]) if exit_code else _EXIT_CODE,
            f"An error of {subject}: {words}.",
            _SHARED.get(int(number), remedy),
            number=int(number),
        )


SDK_CODES = tuple(_sdk_codes())
