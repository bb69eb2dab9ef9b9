"""The SDK's tools and their options, for the comparison of `dovetail explain compat`.

Names only. Source: the public pages on the SDK's tools, version 2.25.
"""

from __future__ import annotations

# Tool of the SDK -> our command, and the frontend that it needs.
TOOLS: dict[str, tuple[str, str | None]] = {
    "qnn-onnx-converter": ("convert", "onnx"),
    "qnn-tflite-converter": ("convert", "tflite"),
    "qnn-tensorflow-converter": ("convert", "tensorflow"),
    "qnn-pytorch-converter": ("convert", "pytorch"),
    "qairt-converter": ("convert", None),
    "qairt-quantizer": ("quantize", None),
    "qnn-model-lib-generator": ("model-lib-generator", None),
    "qnn-op-package-generator": ("op-package-generator", None),
    "qnn-context-binary-generator": ("context-binary-generator", None),
    "qnn-context-binary-utility": ("context-binary-utility", None),
    "qnn-net-run": ("net-run", None),
    "qnn-throughput-net-run": ("throughput-net-run", None),
    "qnn-quantization-checker": ("quantization-checker", None),
    "qnn-accuracy-evaluator": ("accuracy-evaluator", None),
    "qnn-accuracy-debugger": ("accuracy-debugger", None),
    "qnn-architecture-checker": ("architecture-checker", None),
    "qnn-platform-validator": ("platform-validator", None),
    "qnn-profile-viewer": ("profile-viewer", None),
    "qnn-netron": ("view", None),
}

# Our command -> options of the SDK's tool (for `convert`, of all converters). The SDK's
# abbreviations (`act_bw` for `act_bitwidth`) are not listed.
OPTIONS = {
    "convert": """
        act_bitwidth act_quantizer algorithms arch_checker batch bias_bitwidth
        converter_op_package_lib copyright_file custom_io debug define_symbol
        disable_batchnorm_folding disable_relu_squashing dry_run dump_custom_io_config_template
        dump_relay exclude_named_tensors float_bias_bitwidth float_bitwidth float_fallback
        ignore_encodings input_dim input_dtype input_encoding input_layout input_list input_network
        input_type keep_disconnected_nodes keep_quant_nodes no_simplification op_package_config
        op_package_lib out_node output_path overwrite_model_prefix package_name param_quantizer
        preserve_io quantization_overrides restrict_quantization_steps show_unconsumed_nodes
        signature_name use_native_dtype use_native_input_files use_native_output_files
        use_per_channel_quantization use_per_row_quantization weights_bitwidth
        """,
    "quantize": """
        act_bitwidth act_quantizer act_quantizer_calibration act_quantizer_schema algorithms
        bias_bitwidth debug dump_encoding_json float_bias_bitwidth float_bitwidth float_fallback
        ignore_encodings input_dlc input_list op_package_lib output_dlc param_quantizer
        param_quantizer_calibration param_quantizer_schema percentile_calibration_value
        restrict_quantization_steps use_aimet_quantizer use_native_input_files
        use_native_output_files use_per_channel_quantization use_per_row_quantization
        weights_bitwidth
        """,
    "net-run": """
        backend batch_multiplier config_file debug dlc_path duration graph_profiling_num_executions
        graph_profiling_start_delay input_list io_tensor_mem_handle_type keep_num_outputs log_level
        max_input_cache_size_mb max_input_cache_tensor_sets model model_prefix
        native_input_tensor_names num_inferences op_packages output_dir perf_profile
        platform_options profiling_level retrieve_context retrieve_context_timeout
        set_output_tensors shared_buffer synchronous timeout use_mmap use_native_input_files
        use_native_output_files validate_binary version
        """,
    "context-binary-generator": """
        adapter_weight_config backend backend_binary binary_file config_file dlc_path
        enable_intermediate_outputs input_output_tensor_mem_type log_level model model_prefix
        op_packages output_dir platform_options profiling_level profiling_option
        set_output_tensors verbose version
        """,
    "context-binary-utility": "context_binary json_file version",
    "op-package-generator": """
        config_path converter_op_package debug force_generation output_path
        """,
}

_LIBRARY = "names compiled libraries; here op packages are installed dists"
_LOG_LEVEL = "use `--log-level debug`, which every command has"
_SOURCE = "concerns the C++ source that the SDK generates; here a model is one .dvt file"

# Options without a meaning here, with the reason. An option that neither the installed command nor
# this table has may still be added.
REASONS = {
    "convert": {
        "arch_checker": "the SDK replaces it by a separate tool",
        "converter_op_package_lib": _LIBRARY,
        "copyright_file": _SOURCE,
        "debug": _LOG_LEVEL,
        "dump_relay": "writes a model form that only the SDK's converters use",
        "exclude_named_tensors": _SOURCE,
        "op_package_lib": _LIBRARY,
        "overwrite_model_prefix": _SOURCE,
        "package_name": _SOURCE,
    },
    "context-binary-generator": {
        "verbose": _LOG_LEVEL,
    },
    "quantize": {
        "debug": _LOG_LEVEL,
        "op_package_lib": _LIBRARY,
        "use_aimet_quantizer": "the quantizer is Dovetail's own; it reads AIMET's encodings files",
        "use_native_output_files": "the quantizer writes no outputs of the model",
    },
    "op-package-generator": {
        "converter_op_package": "an op infers its shapes itself, for converters and backends",
        "debug": _LOG_LEVEL,
    },
}
