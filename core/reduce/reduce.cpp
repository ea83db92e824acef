#include "core/reduce/reduce.hpp"

#include <string>
#if defined(DDL_X86_KERNELS)
#include <immintrin.h>
#endif

#include "core/base/error.hpp"
#include "core/reduce/kernel_table.hpp"

namespace ddl {
namespace kernels {
namespace {

struct Choice {
  const Table* tables[3] = {};
  std::size_t count = 0;
  void add(const Table& table) { tables[count++] = &table; }
};

/// Each instruction set includes the one before.
Choice choose() {
  Choice choice;
  choice.add(baseline::kTable);
#if defined(DDL_X86_KERNELS)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("f16c")) return choice;
  choice.add(avx2::kTable);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
    choice.add(avx512::kTable);
#endif
  return choice;
}

}  // namespace

std::span<const Table* const> runnable_kernels() {
  static const Choice choice = choose();
  return {choice.tables, choice.count};
}

}  // namespace kernels

namespace {
const kernels::Table& best() {
  static const kernels::Table& table = *kernels::runnable_kernels().back();
  return table;
}
}  // namespace

void reduce(DType type, Op op, void* dst, std::span<const void* const> sources, Elements count) {
  kernels::Fold* fold = best().fold[static_cast<int>(type)][static_cast<int>(op)];
  if (fold == nullptr || sources.empty())
    throw Error("cannot reduce " + std::to_string(sources.size()) + " buffers of " +
                    std::string(name_of(type)) + " with " + std::string(name_of(op)),
                "the operation must be defined on the type and have a source");
  if (count > 0) fold(dst, sources.data(), sources.size(), count);
}

void stream(void* to, const void* from, std::size_t bytes) { best().stream(to, from, bytes); }

void stream_and_keep(void* to, void* kept, const void* from, std::size_t bytes) {
  best().stream_and_keep(to, kept, from, bytes);
}

void stream_end() {
#if defined(DDL_X86_KERNELS)
  _mm_sfence();
#endif
}

void narrow(const WireFormat& format, void* to, const void* from, Elements count) {
  best().narrow[kernels::wide_index(format.of)][static_cast<int>(format.as)](to, from, count);
}

void widen(const WireFormat& format, void* to, const void* from, Elements count) {
  best().widen[kernels::wide_index(format.of)][static_cast<int>(format.as)](to, from, count);
}

std::string describe(const WireFormat& format) {
  return std::string(name_of(format.as)) +
         (format.where == WireWhere::between ? " between hosts" : " everywhere");
}

const char* reduce_kernel_name() { return best().name; }

std::uint16_t float_to_half(float value) {
  std::uint16_t bits;
  best().float_to_half(&bits, &value, 1);
  return bits;
}

float half_to_float(std::uint16_t bits) {
  float value;
  best().half_to_float(&value, &bits, 1);
  return value;
}

std::uint16_t float_to_bfloat16(float value) {
  std::uint16_t bits;
  best().float_to_bfloat16(&bits, &value, 1);
  return bits;
}

float bfloat16_to_float(std::uint16_t bits) {
  float value;
  best().bfloat16_to_float(&value, &bits, 1);
  return value;
}

}  // namespace ddl
