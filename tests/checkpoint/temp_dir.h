/* tests/checkpoint/temp_dir.h - a folder for one test, and whole files as strings. */
#ifndef ZINF_TESTS_CHECKPOINT_TEMP_DIR_H_
#define ZINF_TESTS_CHECKPOINT_TEMP_DIR_H_

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include <gtest/gtest.h>

class TempDir : public ::testing::Test {
  protected:
    void SetUp() override
    {
        std::string t = (std::filesystem::temp_directory_path() / "zinf_checkpoint_XXXXXX").string();
        ASSERT_NE(nullptr, mkdtemp(t.data()));
        dir_ = t;
    }
    void TearDown() override { std::filesystem::remove_all(dir_); }

    std::string path(const std::string &name) const { return dir_ + "/" + name; }
    std::string put(const std::string &name, const std::string &bytes) const
    {
        std::ofstream(path(name), std::ios::binary) << bytes;
        return path(name);
    }
    std::string get(const std::string &name) const
    {
        std::ifstream f(path(name), std::ios::binary);
        return std::string(std::istreambuf_iterator<char>(f), {});
    }
    std::set<std::string> names(const std::string &folder = "") const
    {
        std::set<std::string> out;
        for (const auto &e : std::filesystem::directory_iterator(path(folder)))
            out.insert(e.path().filename().string());
        return out;
    }

    std::string dir_;
};

#endif /* ZINF_TESTS_CHECKPOINT_TEMP_DIR_H_ */
