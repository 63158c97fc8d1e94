/* tests/crash/tiny_run.h - a whole training run in a folder of its own, small enough to be killed hundreds of times.
 *
 *   WORK/model.json, text.txt    what is trained, on what
 *   WORK/drive/                  zinf.nvme_paths (or another folder)
 *   WORK/saves/                  named checkpoints
 *   WORK/export/                 the weights at the end */
#ifndef ZINF_TESTS_CRASH_TINY_RUN_H_
#define ZINF_TESTS_CRASH_TINY_RUN_H_

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "zinf/engine/engine.h"

namespace zinf_crash {

inline std::string Slurp(const std::string &path) {
  std::ifstream f(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(f), std::istreambuf_iterator<char>());
}

inline bool Spill(const std::string &path, const std::string &bytes) {
  std::ofstream f(path, std::ios::binary);
  f << bytes;
  return f.flush().good();
}

// Names in a folder without "." and "..", sorted; empty when it is not there.
inline std::vector<std::string> Names(const std::string &dir) {
  std::vector<std::string> names;
  DIR *d = opendir(dir.c_str());
  for (const dirent *e; d && (e = readdir(d));)
    if (std::string(e->d_name) != "." && std::string(e->d_name) != "..") names.push_back(e->d_name);
  if (d) closedir(d);
  std::sort(names.begin(), names.end());
  return names;
}

inline std::string MakeWork(const std::string &name) {
  const char *base = getenv("TEST_TMPDIR");
  std::string work = std::string(base ? base : "/tmp") + "/" + name + "-XXXXXX", text;
  if (!mkdtemp(&work[0])) return "";
  static const char *const words[] = {"the ", "king ", "of ", "tiers ", "moves ", "shards ", "by ", "night. "};
  for (uint32_t x = 12345; text.size() < 20000; x = x * 1664525u + 1013904223u) text += words[x >> 29];
  bool ok = Spill(work + "/text.txt", text) && !mkdir((work + "/drive").c_str(), 0700) &&
            !mkdir((work + "/saves").c_str(), 0700) &&
            Spill(work + "/model.json",
                  R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":32,)"
                  R"("intermediate_size":72,)"
                  R"("num_hidden_layers":3,"num_attention_heads":4,"num_key_value_heads":2,"vocab_size":256,)"
                  R"("rms_norm_eps":1e-5,"rope_theta":10000.0,"max_position_embeddings":64,"hidden_act":"silu",)"
                  R"("initializer_range":0.05,"tie_word_embeddings":false})");
  return ok ? work : "";
}

inline void RemoveTree(const std::string &dir) {
  if (dir.empty()) return;
  std::string command = "rm -rf '" + dir + "'";
  if (system(command.c_str())) fprintf(stderr, "%s failed\n", command.c_str());
}

struct Tiny {
  std::string work, drive, saves, out;    // empty: WORK/drive, WORK/saves, WORK/export
  std::string offload = "nvme", io = "auto", durability = "\"step\"", sync = "process";
  bool bf16 = true, keep_state = true;
  uint64_t iterations = 12, save_every = 0, nan_first = 4, nan_last = 5;
  uint32_t keep = 0;
  uint64_t device_memory = 32u << 20, host_memory = 500u << 10;    // little enough that every step reads its state
  std::vector<std::string> resume;         // run folders
  std::string load;                        // a named checkpoint
  zinf_engine_hooks hooks = {};
  bool finish = true;                      // flush and export at the end

  std::string Drive() const { return drive.empty() ? work + "/drive" : drive; }
  std::string Saves() const { return saves.empty() ? work + "/saves" : saves; }
  std::string Out() const { return out.empty() ? work + "/export" : out; }
};

// What happened, in order: 'c' a part of start-up is done, 'o' open, 's' a step, 'x' before the export, 'e' after it, 'q'
// closed.
using Mark = std::function<void(char kind, uint64_t iteration)>;

struct Result {
  int rc = 0;
  std::string message;
  std::vector<std::string> log, dirs;
  uint64_t steps = 0, iteration = 0, durable = 0, applied = 0, first_step = 0;
};

inline std::string Config(const Tiny &r) {
  return "{\"train_micro_batch_size_per_gpu\":2,\"gradient_accumulation_steps\":2,\"gradient_clipping\":1.0,"
         "\"bf16\":{\"enabled\":" + std::string(r.bf16 ? "true" : "false") +
         "},\"optimizer\":{\"type\":\"AdamW\",\"params\":{\"lr\":0.003,\"weight_decay\":0.01}},"
         "\"zero_optimization\":{\"stage\":3,\"offload_param\":{\"device\":\"" + r.offload +
         "\"},\"offload_optimizer\":{\"device\":\"" + r.offload + "\"}},\"zinf\":{\"threads\":2,"
         "\"device_memory\":" + std::to_string(r.device_memory) + ",\"host_memory\":" + std::to_string(r.host_memory) +
         ",\"io_backend\":\"" + r.io + "\",\"durability\":" + r.durability +
         ",\"sync\":\"" + r.sync + "\",\"keep_state\":" + (r.keep_state ? "true" : "false") + ",\"nvme_paths\":[\"" +
         r.Drive() + "\"]}}";
}

inline void KeepLine(void *ctx, zinf_log_level, const char *line) {
  static_cast<Result *>(ctx)->log.push_back(line);
}

inline void Progress(void *ctx, const char *, uint64_t, uint64_t) { (*static_cast<Mark *>(ctx))('c', 0); }

// step, when given, is called after each one and ends the run by returning false.
inline Result Run(const Tiny &r, Mark mark = nullptr,
                  const std::function<bool(zinf_trainer *, const zinf_step &)> &step = nullptr) {
  Result out;
  zinf_status st = {};
  zinf_trainer *t = nullptr;
  zinf_engine_hooks hooks = r.hooks;
  std::string config = Config(r), model = r.work + "/model.json", text = r.work + "/text.txt", saves = r.Saves();
  std::vector<const char *> dirs;
  struct zinf_log log = {ZINF_LOG_INFO, KeepLine, &out};
  zinf_trainer_opts o = {};
  for (const auto &d : r.resume) dirs.push_back(d.c_str());
  hooks.nan_first = r.nan_first;
  hooks.nan_last = r.nan_last;
  o.config_text = config.c_str();
  o.model = model.c_str();
  o.data = text.c_str();
  o.seq_len = 32;
  o.resume_dirs = dirs.data();
  o.nr_resume_dirs = static_cast<uint32_t>(dirs.size());
  o.load_checkpoint = r.load.empty() ? nullptr : r.load.c_str();
  o.checkpoint_dir = saves.c_str();
  o.save_every = r.save_every;
  o.keep = r.keep;
  o.log = &log;
  if (mark) o.progress = Progress, o.progress_ctx = &mark;
  if (!mark) mark = [](char, uint64_t) {};

  out.rc = zinf_trainer_open_hooked(&o, &hooks, &t, &st);
  if (!out.rc) {
    zinf_run_info info;
    zinf_trainer_info(t, &info);
    out.first_step = info.first_step;
    out.iteration = t->verdict.iteration;
    mark('o', out.iteration);
  }
  zinf_step s = {};
  bool on = true;
  while (!out.rc && on && out.iteration < r.iterations) {
    out.rc = zinf_trainer_step(t, &s, &st);
    if (out.rc) break;
    out.steps++;
    out.iteration = s.iteration;
    out.durable = s.durable_step;
    out.applied = s.step;
    mark('s', s.iteration);
    on = !step || step(t, s);
  }
  for (uint32_t i = 0; t && zinf_trainer_state_dir(t, i); i++) out.dirs.push_back(zinf_trainer_state_dir(t, i));
  if (!out.rc && r.finish) {
    mark('x', out.iteration);
    out.rc = zinf_trainer_export(t, r.Out().c_str(), &st);
    if (!out.rc) out.rc = zinf_trainer_flush(t, &st);
    if (!out.rc) mark('e', out.iteration);
  }
  if (t && !out.rc && !r.keep_state) zinf_trainer_discard(t);      // as the program does at the end of a run that ended well
  zinf_trainer_close(t);
  mark('q', out.iteration);
  out.message = st.text;
  return out;
}

inline std::string Weights(const Tiny &r) { return Slurp(r.Out() + "/model.safetensors"); }

}  // namespace zinf_crash

#endif  // ZINF_TESTS_CRASH_TINY_RUN_H_
