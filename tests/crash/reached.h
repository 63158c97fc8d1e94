/* tests/crash/reached.h - what the victim says of its progress, through a pipe. */
#ifndef ZINF_TESTS_CRASH_REACHED_H_
#define ZINF_TESTS_CRASH_REACHED_H_

#include <cstdint>

namespace zinf_crash {

struct Reached {
  char kind;             // 'm' in main, else as in tiny_run.h
  uint64_t iteration;
};

}  // namespace zinf_crash

#endif  // ZINF_TESTS_CRASH_REACHED_H_
