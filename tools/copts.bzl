"""Warning flags, kept in one place so that every target is built alike. Everything else that is common is in .bazelrc."""

_WARNINGS = ["-Wall", "-Wextra", "-Wshadow", "-Wvla", "-Wpointer-arith", "-Werror"]

# For C (copts of every cc_library and cc_binary).
ZINF_COPTS = _WARNINGS + ["-Wmissing-prototypes", "-Wstrict-prototypes", "-Wold-style-definition"]

# For C++ (tests).
ZINF_CXX_COPTS = _WARNINGS
