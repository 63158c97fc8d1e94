"""The symbols of libzinf.so: what zinf/zinf.h and the headers it includes declare for applications."""

LIBZINF_SYMBOLS = [
    "zinf_cpu_stream_pool",
    "zinf_dtype_name",
    "zinf_dtype_parse",
    "zinf_f16_to_f32",
    "zinf_f32_to_f16",
    "zinf_fail",
    "zinf_log",
    "zinf_log_level_parse",
    "zinf_param_elems",
    "zinf_pool_for",
    "zinf_pool_nr_threads",
    "zinf_trainer_close",
    "zinf_trainer_evaluate",
    "zinf_trainer_export",
    "zinf_trainer_info",
    "zinf_trainer_open",
    "zinf_trainer_placement",
    "zinf_trainer_step",
    "zinf_version",
    "zinf_vfail",
]
