#include "interpose/gloo/layout.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>

namespace ddl::gloo {
UnboundBuffer::~UnboundBuffer() = default;  // in gloo's own library

namespace {

// As in gloo of 2022 and of 2026.
struct ContextWithVtable {
  virtual ~ContextWithVtable() = default;
  int rank = 0, size = 0;
};
struct ContextWithout {
  int rank = 0, size = 0, base = 2, room = -1;
};

enum class Form : std::uint8_t { with_vtable, without };

std::shared_ptr<Context> context_of(Form form, int rank, int size) {
  auto make = [&](auto context) {
    context->rank = rank;
    context->size = size;
    return std::shared_ptr<Context>(context, reinterpret_cast<Context*>(context.get()));
  };
  return form == Form::with_vtable ? make(std::make_shared<ContextWithVtable>())
                                   : make(std::make_shared<ContextWithout>());
}

void nothing(void*, const void*, const void*, std::size_t) {}

struct Call {
  float values[10] = {};
  AllReduceOptions options;
  Call() {
    options.context = context_of(Form::without, 1, 2);
    add(options.out, sizeof values);
    options.elements = 10;
    options.element_size = sizeof(float);
    options.reduce = nothing;
  }
  void add(std::vector<std::unique_ptr<UnboundBuffer>>& to, std::size_t bytes) {
    to.push_back(std::make_unique<UnboundBuffer>());
    to.back()->pointer = values;
    to.back()->size = bytes;
  }
  void expect(const std::string& why) const {
    EXPECT_EQ(why_not(options, true), why);
    EXPECT_EQ(why_not(options, false), why);
  }
};

TEST(GlooLayout, OptionsThatMakeSense) {
  Call call;
  call.expect("");
  call.add(call.options.in, sizeof call.values);
  call.expect("");
  call.add(call.options.out, sizeof call.values);
  call.expect("");
  call.options.elements = 0;
  for (auto& buffer : call.options.out) buffer->size = 0;
  call.options.in.clear();
  call.options.out[0]->pointer = nullptr;
  call.expect("");
}

TEST(GlooLayout, OptionsThatMakeNoneSaySo) {
  Call without_ranks;
  without_ranks.options.context = context_of(Form::without, 0, 0);
  EXPECT_EQ(why_not(without_ranks.options, true), "its context has no rank and size");
  Call bytes;
  bytes.options.out[0]->size = 39;
  bytes.expect("a buffer has 39 bytes, the elements 40");
  Call width;
  width.options.element_size = 0;
  width.expect("its elements have 0 bytes");
  Call without;
  without.options.out.clear();
  without.expect("it has no output");
  Call function;
  function.options.reduce = nullptr;
  function.expect("it has no reduction");
}

TEST(GlooLayout, AContextOfEitherFormTellsItsPlace) {
  for (Form form : {Form::with_vtable, Form::without}) {
    for (auto [rank, size] : {std::pair{0, 1}, {0, 2}, {1, 2}, {6, 7}, {40000, 1 << 20}}) {
      const std::optional<Place> place = place_in(context_of(form, rank, size).get());
      ASSERT_TRUE(place);
      EXPECT_EQ(place->rank, rank);
      EXPECT_EQ(place->size, size);
    }
    for (auto [rank, size] : {std::pair{2, 2}, {0, 0}, {-1, 2}, {0, -1}, {0, 1 << 30}})
      EXPECT_FALSE(place_in(context_of(form, rank, size).get()));
  }
  EXPECT_FALSE(place_in(nullptr));
  EXPECT_FALSE(place_in(reinterpret_cast<const Context*>(8)));
}

// Of the other calls, with buffers of 40 bytes on rank 1 of 2.
template <class Options>
struct OtherCall {
  float values[20] = {};
  Options options;
  OtherCall() { options.context = context_of(Form::without, 1, 2); }
  static std::unique_ptr<UnboundBuffer> buffer(void* pointer, std::size_t bytes) {
    auto made = std::make_unique<UnboundBuffer>();
    made->pointer = pointer;
    made->size = bytes;
    return made;
  }
  void expect(const std::string& with_care, const std::string& without) const {
    EXPECT_EQ(why_not(options, true), with_care);
    EXPECT_EQ(why_not(options, false), without);
  }
  void expect(const std::string& why) const { expect(why, why); }
};

template <class Options>
void expect_rooted_calls_to_be_looked_at() {
  OtherCall<Options> call;
  Options& options = call.options;
  options.elements = 10;
  options.element_size = 4;
  options.root = 0;
  if constexpr (requires { options.reduce; }) options.reduce = nothing;
  call.expect("it has no output");
  options.out = call.buffer(call.values, 40);
  call.expect("");
  options.in = call.buffer(call.values + 10, 40);
  call.expect("");
  options.in->size = 39;
  call.expect("a buffer has 39 bytes, the elements 40");
  options.in.reset();
  options.root = 2;
  call.expect("its root is no rank", "");
  options.root = -1;
  call.expect("its root is no rank", "");
  options.root = 1;
  options.element_size = 4097;
  call.expect("its elements have 4097 bytes");
}

TEST(GlooLayout, CallsWithARootAreLookedAt) {
  expect_rooted_calls_to_be_looked_at<BroadcastOptions>();
  expect_rooted_calls_to_be_looked_at<ReduceOptions>();
}

TEST(GlooLayout, AllGathersAreLookedAt) {
  OtherCall<AllGatherOptions> call;
  call.options.element_size = 4;
  call.expect("it has no output");
  call.options.out = call.buffer(call.values, 80);
  call.expect("");
  call.options.in = call.buffer(call.values, 40);
  call.expect("");
  call.options.in->size = 44;
  call.expect("a buffer has 44 bytes, the elements 40", "");
  call.options.out->size = 81;
  call.expect("81 bytes are not to be shared by 2 ranks", "");
}

TEST(GlooLayout, BarriersAreLookedAt) {
  OtherCall<BarrierOptions> call;
  call.expect("its buffer is none");
  call.options.buffer = call.buffer(nullptr, 0);
  call.expect("");
  call.options.buffer->size = 8;
  call.expect("its buffer is none");
}

template <class Options>
void expect_foreign_memory_to_be_survived() {
  for (std::uintptr_t foreign :
       {std::uintptr_t{1}, std::uintptr_t{8}, std::uintptr_t{0xdeadbee0}, ~std::uintptr_t{7}}) {
    alignas(Options) std::uintptr_t image[sizeof(Options) / 8];
    std::fill(std::begin(image), std::end(image), foreign);
    EXPECT_NE(why_not(*reinterpret_cast<const Options*>(image), true), "");
    OtherCall<Options> call;
    for (std::size_t word = 2; word < 4; ++word) {
      std::memcpy(image, static_cast<const void*>(&call.options), sizeof image);
      image[word] = foreign;
      EXPECT_NE(why_not(*reinterpret_cast<const Options*>(image), true), "");
    }
  }
}

TEST(GlooLayout, ForeignMemoryOfOtherCallsIsLookedAtWithCare) {
  expect_foreign_memory_to_be_survived<BroadcastOptions>();
  expect_foreign_memory_to_be_survived<ReduceOptions>();
  expect_foreign_memory_to_be_survived<AllGatherOptions>();
  expect_foreign_memory_to_be_survived<BarrierOptions>();
}

// What lies elsewhere in another version must not end the program: any words in place of the pointers.
TEST(GlooLayout, ForeignMemoryIsLookedAtWithCare) {
  constexpr std::size_t kWords = 17;  // up to the tag
  for (std::uintptr_t foreign :
       {std::uintptr_t{1}, std::uintptr_t{8}, std::uintptr_t{0xdeadbee0}, ~std::uintptr_t{7}})
    for (std::size_t word : {0, 4, 5, 6, 7, 8, 9, 14, 15}) {
      Call call;
      alignas(AllReduceOptions) std::uintptr_t image[sizeof(AllReduceOptions) / 8];
      std::memcpy(image, static_cast<const void*>(&call.options), sizeof image);
      image[word] = foreign;
      const std::string why = why_not(*reinterpret_cast<const AllReduceOptions*>(image), true);
      EXPECT_TRUE(word < kWords && (!why.empty() || word == 4 || word == 6 || word == 9))
          << word << ' ' << foreign << why;
    }
}

}  // namespace
}  // namespace ddl::gloo
