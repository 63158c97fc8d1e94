/* tests/report/table_test.cc - what the tables say and leave out. */
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "zinf/report/jsonl.h"
#include "zinf/report/table.h"

namespace {

zinf_run_summary make(const char *name, const char *offload, double tokens_per_s, bool drives)
{
    zinf_run_summary s = {};
    snprintf(s.name, sizeof(s.name), "%s", name);
    snprintf(s.offload, sizeof(s.offload), "%s", offload);
    snprintf(s.io_backend, sizeof(s.io_backend), "%s", drives ? "io_uring" : "none");
    snprintf(s.run_dir, sizeof(s.run_dir), "/out/%s", name);
    snprintf(s.log_path, sizeof(s.log_path), "/out/%s/log.jsonl", name);
    s.steps = 100;
    s.tokens = 102400;
    s.first_loss = 5.54518;
    s.last_loss = 2.5;
    s.eval_loss = NAN;
    s.seconds = 20.48;
    s.tokens_per_s = tokens_per_s;
    s.budget_nbytes[0] = 16 << 20;
    s.peak_nbytes[0] = 15 << 20;
    s.budget_nbytes[1] = 40 << 20;
    s.peak_nbytes[1] = 39 << 20;
    s.direct = drives;
    if (drives) {
        s.peak_nbytes[2] = 120 << 20;
        s.drive_read_nbytes = 3ull << 30;
        s.drive_written_nbytes = 2ull << 30;
    }
    return s;
}

template <typename Fn> std::vector<std::string> lines(Fn fn)
{
    char *text = nullptr;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    fn(f);
    fclose(f);
    std::istringstream in(std::string(text, n));
    free(text);
    std::vector<std::string> out;
    for (std::string l; std::getline(in, l);)
        out.push_back(l);
    return out;
}

std::string row(const std::vector<std::string> &table, const std::string &label)
{
    for (const std::string &l : table)
        if (l.compare(2, label.size() + 1, label + " ") == 0) {
            size_t at = l.find_first_not_of(' ', 2 + label.size());
            return at == std::string::npos ? "" : l.substr(at);
        }
    return "(no such row)";
}

TEST(Table, ARunWithDrives)
{
    zinf_run_summary s = make("a", "nvme", 5000, true);
    std::vector<std::string> t = lines([&](FILE *f) { zinf_table_run(&s, f); });
    EXPECT_EQ("nvme", row(t, "offload"));
    EXPECT_EQ("5.5452 -> 2.5000", row(t, "loss first -> last"));
    EXPECT_EQ("(no such row)", row(t, "evaluation loss"));
    EXPECT_EQ("5000", row(t, "tokens/s"));
    EXPECT_EQ("15.0 MiB of 16.0 MiB", row(t, "peak device memory"));
    EXPECT_EQ("39.0 MiB of 40.0 MiB", row(t, "peak host memory"));
    EXPECT_EQ("120.0 MiB", row(t, "on drives"));
    EXPECT_EQ("3.0 GiB", row(t, "read from drives"));
    EXPECT_EQ("2.0 GiB", row(t, "written to drives"));
    EXPECT_EQ("io_uring", row(t, "I/O backend"));
    EXPECT_EQ("yes", row(t, "O_DIRECT"));
    EXPECT_EQ("/out/a", row(t, "run"));
    EXPECT_EQ("/out/a/log.jsonl", row(t, "log"));
    EXPECT_EQ("(no such row)", row(t, "weights"));
}

TEST(Table, ARunWithoutDrivesSaysNothingOfThem)
{
    zinf_run_summary s = make("a", "none", 5000, false);
    s.eval_loss = 2.25;
    std::vector<std::string> t = lines([&](FILE *f) { zinf_table_run(&s, f); });
    EXPECT_EQ("2.2500", row(t, "evaluation loss"));
    for (const char *label : { "on drives", "read from drives", "written to drives", "I/O backend", "O_DIRECT" })
        EXPECT_EQ("(no such row)", row(t, label)) << label;
}

TEST(Table, RunsSideBySide)
{
    const zinf_run_summary runs[] = { make("nvme-run", "nvme", 4000, true), make("none-run", "none", 5000, false) };
    std::vector<std::string> t = lines([&](FILE *f) { zinf_table_compare(runs, 2, f); });
    EXPECT_NE(std::string::npos, t[0].find("nvme-run"));
    EXPECT_LT(t[0].find("nvme-run"), t[0].find("none-run"));
    for (const std::string &l : t)
        EXPECT_EQ(t[0].size(), l.size()) << "columns are aligned: " << l;
    auto cells = [&](const char *label) {
        std::istringstream in(row(t, label));
        std::vector<std::string> out;
        for (std::string w; in >> w;)
            out.push_back(w);
        return out;
    };
    EXPECT_EQ((std::vector<std::string>{ "4000", "5000" }), cells("tokens/s"));
    EXPECT_EQ((std::vector<std::string>{ "0.80", "1.00" }), cells("  of the fastest"));
    EXPECT_EQ((std::vector<std::string>{ "io_uring", "-" }), cells("I/O backend"));
    EXPECT_EQ((std::vector<std::string>{ "yes", "-" }), cells("O_DIRECT"));
    EXPECT_EQ("(no such row)", row(t, "evaluation loss")) << "no run has one";
}

TEST(Table, ARunThatWentOnSaysWhichStepsItsFiguresAreOf)
{
    zinf_run_summary runs[] = { make("whole", "nvme", 4000, true), make("part", "nvme", 5000, true), make("ended", "nvme", 0, true) };
    runs[1].first_step = 50;
    runs[2].first_step = 100;
    runs[2].tokens = 0;
    for (auto &r : runs)
        snprintf(r.device, sizeof(r.device), "cpu with a long name");
    const char *want[] = { "100 (102400 tokens)", "51 to 100 (102400 tokens)", "100, none of them now" };
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(want[i], row(lines([&](FILE *f) { zinf_table_run(&runs[i], f); }), "steps"));
    EXPECT_EQ("(no such row)", row(lines([&](FILE *f) { zinf_table_run(&runs[2], f); }), "tokens/s"));

    std::vector<std::string> t = lines([&](FILE *f) { zinf_table_compare(runs, 3, f); });
    EXPECT_EQ("cpu with a long name", row(t, "device")) << "said once";
    EXPECT_EQ('-', row(t, "tokens/s").back());
    EXPECT_EQ('-', row(t, "  of the fastest").back());
    snprintf(runs[1].device, sizeof(runs[1].device), "another");
    t = lines([&](FILE *f) { zinf_table_compare(runs, 3, f); });
    EXPECT_NE("cpu with a long name", row(t, "device"));
    EXPECT_NE(std::string::npos, row(t, "device").find("another"));
}

}  // namespace
