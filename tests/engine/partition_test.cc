/* tests/engine/partition_test.cc - how a model is cut into units and shards. */
#include "zinf/engine/partition.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <vector>

namespace {

size_t Work(const zinf_layer *, uint32_t, uint32_t, uint64_t) { return 0; }
int Pass(const zinf_layer *, const zinf_call *) { return 0; }

zinf_param Param(const char *name, std::vector<uint64_t> dims) {
  zinf_param p = {};
  p.name = name;
  p.nr_dims = static_cast<uint32_t>(dims.size());
  for (size_t i = 0; i < dims.size() && i < 4; i++) p.dims[i] = dims[i];
  return p;
}

struct Chain {
  explicit Chain(bool tied = false) {
    embedding = Param("embed", {10, 8});
    params = {Param("l0.w", {8, 9}), Param("l0.b", {3}), Param("l1.w", {0})};
    head_params = tied ? std::vector<zinf_param>{Param("embed", {10, 8}), Param("norm", {8})}
                       : std::vector<zinf_param>{Param("norm", {8}), Param("head", {10, 8})};
    layers.resize(3);
    for (auto *l : {&layers[0], &layers[1], &layers[2], &head}) {
      l->work_nbytes = Work;
      l->forward = l->backward = Pass;
    }
    layers[0].params = params.data();
    layers[0].nr_params = 2;
    layers[1].params = params.data() + 2;
    layers[1].nr_params = 1;                 // layers[2] has none
    head.params = head_params.data();
    head.nr_params = static_cast<uint32_t>(head_params.size());
    chain.width = 8;
    chain.embedding = &embedding;
    chain.layers = layers.data();
    chain.nr_layers = 3;
    chain.head = &head;
    chain.tied = tied;
  }
  zinf_param embedding = {};
  std::vector<zinf_param> params, head_params;
  std::vector<zinf_layer> layers;
  zinf_layer head = {};
  zinf_chain chain = {};
};

TEST(Partition, ParametersAreAlignedAndUnitsPadded) {
  Chain c;
  zinf_partition p;
  zinf_status st = {};
  ASSERT_EQ(0, zinf_partition_make(&c.chain, &p, &st)) << st.text;
  ASSERT_EQ(5u, p.nr_units);
  EXPECT_EQ(0u, p.embed_unit);
  EXPECT_EQ(4u, p.head_unit);
  EXPECT_EQ(80u + 72 + 3 + 0 + 8 + 80, p.nr_elems);
  EXPECT_EQ(128u, p.params[2].offset);       // 72 elements, then the next multiple of 64
  EXPECT_EQ(4096u, p.unit_elems[1]);
  EXPECT_EQ(0u, p.unit_elems[2]);            // a zero-element parameter
  EXPECT_EQ(0u, p.unit_elems[3]);            // a layer without parameters
  EXPECT_EQ(p.params + 2, zinf_partition_find(&p, 1, 130));
  EXPECT_EQ(nullptr, zinf_partition_find(&p, 1, 100));
  EXPECT_EQ(nullptr, zinf_partition_find(&p, 1, 4000));
  zinf_partition_free(&p);
}

TEST(Partition, TiedHeadSharesTheEmbeddingsUnit) {
  Chain c(true);
  zinf_partition p;
  zinf_status st = {};
  ASSERT_EQ(0, zinf_partition_make(&c.chain, &p, &st)) << st.text;
  EXPECT_EQ(4u, p.nr_units);
  EXPECT_EQ(p.embed_unit, p.head_unit);
  EXPECT_STREQ("embed", p.params[p.head_params[0]].param->name);
  EXPECT_STREQ("norm", p.params[p.head_params[1]].param->name);
  EXPECT_EQ(80u + 72 + 3 + 8, p.nr_elems);
  zinf_partition_free(&p);
}

TEST(Partition, RefusesWhatCannotBeTrained) {
  zinf_partition p;
  zinf_status st = {};
  Chain same;
  same.params[1].name = "l0.w";
  EXPECT_EQ(-EINVAL, zinf_partition_make(&same.chain, &p, &st));
  EXPECT_NE(nullptr, strstr(st.text, "l0.w"));
  Chain huge;
  huge.params[0].dims[0] = 1ull << 62;
  st = {};
  EXPECT_EQ(-EINVAL, zinf_partition_make(&huge.chain, &p, &st));
  Chain wide;
  wide.embedding.dims[1] = 9;
  st = {};
  EXPECT_EQ(-EINVAL, zinf_partition_make(&wide.chain, &p, &st));
  Chain untied(true);
  untied.head_params[0].dims[0] = 11;
  st = {};
  EXPECT_EQ(-EINVAL, zinf_partition_make(&untied.chain, &p, &st));
  Chain no_backward;
  no_backward.layers[2].backward = nullptr;
  st = {};
  EXPECT_EQ(-EINVAL, zinf_partition_make(&no_backward.chain, &p, &st));
}

}  // namespace
