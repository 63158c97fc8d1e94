/* tests/crash/victim.cc - a training run in a process of its own, to be killed.
 *
 *   victim WORK [key=value ...]    offload dtype durability sync io iterations save_every keep resume load marks
 *                                device_memory host_memory
 *
 * resume and load are folders; marks is a descriptor that takes what has been reached (struct Reached). Exits with 0, or
 * with 1 and the line of the error on standard error. */
#include <cstdio>

#include "tests/crash/reached.h"
#include "tests/crash/tiny_run.h"

namespace {

bool Set(zinf_crash::Tiny *r, int *marks, const std::string &key, const std::string &value) {
  if (key == "offload") r->offload = value;
  else if (key == "dtype") r->bf16 = value == "bf16";
  else if (key == "durability") r->durability = value;
  else if (key == "sync") r->sync = value;
  else if (key == "io") r->io = value;
  else if (key == "iterations") r->iterations = std::stoull(value);
  else if (key == "save_every") r->save_every = std::stoull(value);
  else if (key == "keep") r->keep = static_cast<uint32_t>(std::stoul(value));
  else if (key == "resume") r->resume.push_back(value);
  else if (key == "load") r->load = value;
  else if (key == "device_memory") r->device_memory = std::stoull(value);
  else if (key == "host_memory") r->host_memory = std::stoull(value);
  else if (key == "marks") *marks = std::stoi(value);
  else return false;
  return true;
}

}  // namespace

int main(int argc, char **argv) {
  zinf_crash::Tiny r;
  int marks = -1;
  if (argc < 2) return 2;
  r.work = argv[1];
  for (int i = 2; i < argc; i++) {
    std::string arg = argv[i];
    size_t eq = arg.find('=');
    if (eq == std::string::npos || !Set(&r, &marks, arg.substr(0, eq), arg.substr(eq + 1))) {
      fprintf(stderr, "victim: %s is not known\n", argv[i]);
      return 2;
    }
  }
  auto mark = [marks](char kind, uint64_t iteration) {
    zinf_crash::Reached m = {kind, iteration};
    if (marks >= 0 && write(marks, &m, sizeof(m)) != static_cast<ssize_t>(sizeof(m))) _exit(3);
  };
  mark('m', 0);
  zinf_crash::Result out = zinf_crash::Run(r, mark);
  if (out.rc) fprintf(stderr, "victim: %s\n", out.message.c_str());
  return out.rc ? 1 : 0;
}
