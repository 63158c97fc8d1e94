"""Warning flags, in one place so that every target is built alike. What else is common is in .bazelrc."""

_WARNINGS = ["-Wall", "-Wextra", "-Wvla", "-Wpointer-arith", "-Werror"]

# For C (copts of every cc_library and cc_binary).
ZINF_COPTS = _WARNINGS + ["-Wshadow", "-Wmissing-prototypes", "-Wstrict-prototypes", "-Wold-style-definition"]

# For C++ (tests). No -Wshadow: there gcc takes struct zinf_log beside zinf_log(), which C allows, for a hidden
# constructor.
ZINF_CXX_COPTS = _WARNINGS
