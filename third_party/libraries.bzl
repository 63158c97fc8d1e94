"""zinf_libraries: every system library that zinf may use, in one list."""

load("//third_party:system_library.bzl", "system_library")

def zinf_libraries():
    """Declares @gtest//:main, @liburing//:liburing, @libaio//:libaio, @openblas//:openblas, @jemalloc//:jemalloc."""
    system_library(
        name = "gtest",
        language = "c++",
        linkopts = ["-lgtest", "-lgtest_main", "-lpthread"],
        package = "libgtest-dev",
        probe = "#include <gtest/gtest.h>\nTEST(Probe, Links) { EXPECT_EQ(1, 1 + 0); }\n",
        required = True,
        target = "main",
    )
    system_library(
        name = "liburing",
        define = "ZINF_HAVE_LIBURING",
        linkopts = ["-luring"],
        package = "liburing-dev",
        probe = "#include <liburing.h>\nint main(void) { struct io_uring r; return io_uring_queue_init(1, &r, 0); }\n",
        required = True,
        target = "liburing",
    )
    system_library(
        name = "libaio",
        define = "ZINF_HAVE_LIBAIO",
        linkopts = ["-laio"],
        package = "libaio-dev",
        probe = "#include <libaio.h>\nint main(void) { io_context_t c = 0; return io_setup(1, &c); }\n",
        target = "libaio",
    )
    system_library(
        name = "openblas",
        define = "ZINF_HAVE_OPENBLAS",
        linkopts = ["-lopenblas"],
        package = "libopenblas-dev",
        # openblas_* besides cblas_*: the reference cblas would not do.
        probe = """#include <cblas.h>
int main(void)
{
    float x = 1;
    openblas_set_num_threads(1);
    return openblas_get_corename()[0] == (int)cblas_sdot(1, &x, 1, &x, 1);
}
""",
        target = "openblas",
    )
    system_library(
        name = "jemalloc",
        define = "ZINF_HAVE_JEMALLOC",
        linkopts = ["-ljemalloc"],
        package = "libjemalloc-dev",
        probe = """#include <jemalloc/jemalloc.h>
int main(void) { return mallctl("version", 0, 0, 0, 0); }
""",
        sanitizers = False,
        target = "jemalloc",
    )
