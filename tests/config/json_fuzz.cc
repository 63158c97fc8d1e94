/* tests/config/json_fuzz.cc - the JSON reader and the configuration under libFuzzer.
 *
 *   bazel run --config=clang --copt=-fsanitize=fuzzer-no-link,address --linkopt=-fsanitize=address \
 *       //tests/config:json_fuzz -- -max_total_time=600 CORPUS_DIR
 * (the flags let it see the branches of the libraries, too) */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <string>

#include "zinf/base/status.h"
#include "zinf/config/config.h"
#include "zinf/config/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

static void walk(const zinf_json *v)
{
    char path[64];

    zinf_json_path(v, path, sizeof(path));
    for (uint32_t i = 0; i < v->nr_items; i++) {
        if (v->items[i].parent != v)
            abort();
        walk(&v->items[i]);
    }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    for (int relaxed = 0; relaxed < 2; relaxed++) {
        zinf_json_doc doc;
        zinf_status st = {};

        if (zinf_json_parse((const char *)data, nbytes, "fuzz", relaxed != 0, &doc, &st) == 0)
            walk(doc.root);
        else if (st.text[0] == '\0')
            abort();
        zinf_json_free(&doc);
    }
    std::string text((const char *)data, nbytes);
    zinf_config c;
    zinf_status st = {};
    const char *set = text.c_str();   /* the same bytes as a --set */
    if (zinf_config_load(nullptr, text.c_str(), "fuzz", nullptr, 0, nullptr, &c, &st) == 0)
        zinf_config_free(&c);
    if (zinf_config_load(nullptr, nullptr, nullptr, &set, 1, nullptr, &c, &st) == 0)
        zinf_config_free(&c);
    return 0;
}
