#include "interpose/gloo/layout.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace ddl::gloo {
namespace {

constexpr std::size_t kMostBuffers = 64;
constexpr int kMostRanks = 1 << 20;

// Where these members lie in AllReduceOptions.
#pragma GCC diagnostic ignored "-Winvalid-offsetof"  // as every compiler for Linux lays it out
static_assert(offsetof(AllReduceOptions, timeout) == 16 && offsetof(AllReduceOptions, in) == 32 &&
              offsetof(AllReduceOptions, out) == 56 && offsetof(AllReduceOptions, elements) == 80 &&
              offsetof(AllReduceOptions, element_size) == 88 && offsetof(AllReduceOptions, reduce) == 96 &&
              offsetof(AllReduceOptions, tag) == 128);

// A copy of memory that may not be there.
class Reader {
 public:
  explicit Reader(bool care) : care_(care) {}

  bool read(const void* from, void* to, std::size_t bytes) const {
    if (!care_) return std::memcpy(to, from, bytes), true;
    iovec here{to, bytes}, there{const_cast<void*>(from), bytes};
    if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) == static_cast<ssize_t>(bytes)) return true;
    if (errno != EPERM && errno != ENOSYS) return false;  // a sandbox may forbid it
    const int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    const auto got = pread(memory, to, bytes, static_cast<off_t>(reinterpret_cast<std::uintptr_t>(from)));
    if (memory >= 0) close(memory);
    return got == static_cast<ssize_t>(bytes);
  }
  template <class Value>
  bool read(const void* from, Value& value) const {
    return from && reinterpret_cast<std::uintptr_t>(from) % alignof(Value) == 0 &&
           read(from, &value, sizeof value);
  }

 private:
  bool care_;
};

struct BufferWords {
  void* vtable;
  void* pointer;
  std::size_t size;
};
struct VectorWords {
  BufferWords* const* begin;
  BufferWords* const* end;
  BufferWords* const* room;
};
struct FunctionImage {
  const void* held[2];
  const void* manager;
  const void* invoker;
};
static_assert(sizeof(FunctionImage) == sizeof(ReduceFunction));
static_assert(sizeof(VectorWords) == sizeof(AllReduceOptions::in));

bool is_in_a_library(const void* address) {
  Dl_info found;
  return address && dladdr(address, &found) != 0;
}

std::string look_at(const Reader& reader, const VectorWords& buffers, std::size_t bytes) {
  if (buffers.begin > buffers.end || buffers.end > buffers.room ||
      static_cast<std::size_t>(buffers.end - buffers.begin) > kMostBuffers)
    return "the list of its buffers is none";
  for (BufferWords* const* at = buffers.begin; at != buffers.end; ++at) {
    BufferWords* buffer = nullptr;
    BufferWords words{};
    if (!reader.read(at, buffer) || !reader.read(buffer, words)) return "a buffer is not there";
    if (words.size != bytes || (bytes > 0 && !words.pointer))
      return fmt::format("a buffer has {} bytes, the elements {}", words.size, bytes);
  }
  return {};
}

}  // namespace

std::optional<Place> place_in(const Context* context) {
  struct {
    const void* vtable;
    Place place;
  } words{};
  if (!Reader(true).read(context, words)) return std::nullopt;
  Place place = words.place;
  if (!is_in_a_library(words.vtable)) std::memcpy(&place, &words.vtable, sizeof place);
  const bool makes_sense =
      place.size >= 1 && place.size <= kMostRanks && 0 <= place.rank && place.rank < place.size;
  return makes_sense ? std::optional(place) : std::nullopt;
}

std::string why_not(const AllReduceOptions& options, bool care) {
  const Reader reader(care);
  constexpr std::size_t kKnown = offsetof(AllReduceOptions, max_segment);
  alignas(AllReduceOptions) std::byte image[kKnown];
  if (!reader.read(&options, image, kKnown))
    return fmt::format("its memory cannot be looked at: {}", std::strerror(errno));
  auto member = [&]<class Words>(std::size_t at, Words words) {
    std::memcpy(&words, image + at, sizeof words);
    return words;
  };
  const void* context = member(offsetof(AllReduceOptions, context), static_cast<const void*>(nullptr));
  const auto elements = member(offsetof(AllReduceOptions, elements), std::size_t{});
  const auto element = member(offsetof(AllReduceOptions, element_size), std::size_t{});
  const auto in = member(offsetof(AllReduceOptions, in), VectorWords{});
  const auto out = member(offsetof(AllReduceOptions, out), VectorWords{});
  if (care && !place_in(static_cast<const Context*>(context))) return "its context has no rank and size";
  if ((element != 1 && element != 2 && element != 4 && element != 8) || elements > SIZE_MAX / element)
    return fmt::format("its elements have {} bytes", element);
  if (out.begin == out.end) return "it has no output";
  for (const VectorWords& buffers : {in, out})
    if (std::string why = look_at(reader, buffers, elements * element); !why.empty()) return why;
  const auto function = member(offsetof(AllReduceOptions, reduce), FunctionImage{});
  if (!function.manager || !function.invoker) return "it has no reduction";
  if (care && (!is_in_a_library(function.manager) || !is_in_a_library(function.invoker)))
    return "its reduction is no code";
  return {};
}

}  // namespace ddl::gloo
