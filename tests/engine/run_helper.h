/* tests/engine/run_helper.h - trains a tiny model with given settings and gives back what must not depend on them. */
#ifndef ZINF_TESTS_ENGINE_RUN_HELPER_H_
#define ZINF_TESTS_ENGINE_RUN_HELPER_H_

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "zinf/engine/engine.h"

namespace zinf_test {

inline std::string TempDir(const std::string &name) {
  const char *base = getenv("TEST_TMPDIR");
  std::string pattern = std::string(base ? base : "/tmp") + "/" + name + "-XXXXXX";
  char *made = mkdtemp(&pattern[0]);
  EXPECT_NE(nullptr, made);
  return pattern;
}

inline std::string ReadFile(const std::string &path) {
  std::ifstream f(path, std::ios::binary);
  EXPECT_TRUE(f.good()) << path;
  return std::string(std::istreambuf_iterator<char>(f), std::istreambuf_iterator<char>());
}

inline void WriteFile(const std::string &path, const std::string &text) {
  std::ofstream f(path, std::ios::binary);
  f << text;
  ASSERT_TRUE(f.good()) << path;
}

// Text with structure to learn, always the same.
inline std::string SomeText(size_t n) {
  static const char *const words[] = {"the ", "king ", "of ", "tiers ", "moves ", "shards ", "by ", "night. "};
  std::string s;
  for (uint32_t x = 12345; s.size() < n; x = x * 1664525u + 1013904223u) s += words[x >> 29];
  return s;
}

struct Settings {
  std::string offload = "nvme";       // none, cpu, nvme, or "param/optimizer"
  std::string io = "auto";
  bool bf16 = true;
  int threads = 2;
  uint64_t device_memory = 0, host_memory = 0;   // 0 = 256 MiB
  bool serial = false;
  bool tied = false;
  int micro = 2, accumulation = 2;
  int steps = 5;
  std::string optimizer = "AdamW";
  double lr = 3e-3, clip = 1.0;
  std::vector<std::string> sets;
  zinf_engine_hooks hooks = {};
};

struct Outcome {
  int rc = 0;
  std::string message;
  std::string weights;               // the exported file
  std::vector<double> losses, norms;
  double eval_loss = 0;
  zinf_run_info info = {};
};

class Bench {
 public:
  Bench() : dir_(TempDir("engine")) {
    WriteFile(dir_ + "/text.txt", SomeText(20000));
    mkdir((dir_ + "/drive").c_str(), 0700);
    for (bool tied : {false, true})
      WriteFile(dir_ + (tied ? "/tied.json" : "/model.json"),
                std::string(R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":32,)") +
                    R"("intermediate_size":72,"num_hidden_layers":3,"num_attention_heads":4,"num_key_value_heads":2,)"
                    R"("vocab_size":256,"rms_norm_eps":1e-5,"rope_theta":10000.0,"max_position_embeddings":64,)"
                    R"("hidden_act":"silu","initializer_range":0.05,"tie_word_embeddings":)" +
                    (tied ? "true" : "false") + "}");
  }
  ~Bench() {
    std::string command = "rm -rf '" + dir_ + "'";
    EXPECT_EQ(0, system(command.c_str()));
  }

  std::string Config(const Settings &s) const {
    auto slash = s.offload.find('/');
    std::string param = s.offload.substr(0, slash);
    std::string optimizer = slash == std::string::npos ? param : s.offload.substr(slash + 1);
    auto memory = [](uint64_t n) { return std::to_string(n ? n : 256u << 20); };
    return "{\"train_micro_batch_size_per_gpu\":" + std::to_string(s.micro) +
           ",\"gradient_accumulation_steps\":" + std::to_string(s.accumulation) +
           ",\"gradient_clipping\":" + std::to_string(s.clip) + ",\"bf16\":{\"enabled\":" + (s.bf16 ? "true" : "false") +
           "},\"optimizer\":{\"type\":\"" + s.optimizer + "\",\"params\":{\"lr\":" + std::to_string(s.lr) +
           ",\"weight_decay\":0.01}},\"zero_optimization\":{\"stage\":3,\"offload_param\":{\"device\":\"" + param +
           "\"},\"offload_optimizer\":{\"device\":\"" + optimizer + "\"}},\"zinf\":{\"threads\":" + std::to_string(s.threads) +
           ",\"device_memory\":" + memory(s.device_memory) + ",\"host_memory\":" + memory(s.host_memory) +
           ",\"io_backend\":\"" + s.io + "\",\"nvme_paths\":[\"" + dir_ + "/drive\"]}}";
  }

  Outcome Run(const Settings &s) {
    Outcome out;
    zinf_status st = {};
    zinf_trainer *t = nullptr;
    std::string config = Config(s), model = dir_ + (s.tied ? "/tied.json" : "/model.json"), text = dir_ + "/text.txt";
    std::vector<const char *> sets;
    for (const auto &x : s.sets) sets.push_back(x.c_str());
    zinf_trainer_opts o = {};
    o.config_text = config.c_str();
    o.sets = sets.data();
    o.nr_sets = static_cast<uint32_t>(sets.size());
    o.model = model.c_str();
    o.data = text.c_str();
    o.seq_len = 32;
    o.serial = s.serial;
    out.rc = zinf_trainer_open_hooked(&o, &s.hooks, &t, &st);
    for (int i = 0; i < s.steps && !out.rc; i++) {
      zinf_step step;
      out.rc = zinf_trainer_step(t, &step, &st);
      if (out.rc) break;
      out.losses.push_back(step.loss);
      out.norms.push_back(step.grad_norm);
      if (i == 2) out.rc = zinf_trainer_evaluate(t, 5, &out.eval_loss, nullptr, &st);
    }
    std::string dir = dir_ + "/export-" + std::to_string(count_++);
    if (!out.rc) out.rc = zinf_trainer_export(t, dir.c_str(), &st);
    if (t) zinf_trainer_info(t, &out.info);
    zinf_trainer_close(t);
    out.message = st.text;
    if (!out.rc) out.weights = ReadFile(dir + "/model.safetensors");
    return out;
  }

  const std::string &dir() const { return dir_; }

 private:
  std::string dir_;
  int count_ = 0;
};

}  // namespace zinf_test

#endif  // ZINF_TESTS_ENGINE_RUN_HELPER_H_
