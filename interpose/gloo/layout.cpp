#include "interpose/gloo/layout.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <type_traits>

namespace ddl::gloo {
namespace {

constexpr std::size_t kMostBuffers = 64;
constexpr std::size_t kMostElement = 4096;
constexpr int kMostRanks = 1 << 20;

// Where these members lie in AllReduceOptions.
#pragma GCC diagnostic ignored "-Winvalid-offsetof"  // as every compiler for Linux lays it out
static_assert(offsetof(AllReduceOptions, timeout) == 16 && offsetof(AllReduceOptions, in) == 32 &&
              offsetof(AllReduceOptions, out) == 56 && offsetof(AllReduceOptions, elements) == 80 &&
              offsetof(AllReduceOptions, element_size) == 88 && offsetof(AllReduceOptions, reduce) == 96 &&
              offsetof(AllReduceOptions, tag) == 128);
static_assert(offsetof(BroadcastOptions, out) == 24 && offsetof(BroadcastOptions, elements) == 32 &&
              offsetof(BroadcastOptions, root) == 48 && offsetof(BroadcastOptions, tag) == 52 &&
              offsetof(BroadcastOptions, timeout) == 56);
static_assert(offsetof(ReduceOptions, out) == 24 && offsetof(ReduceOptions, elements) == 32 &&
              offsetof(ReduceOptions, root) == 48 && offsetof(ReduceOptions, reduce) == 56 &&
              offsetof(ReduceOptions, tag) == 88 && offsetof(ReduceOptions, timeout) == 104);
static_assert(offsetof(AllGatherOptions, out) == 24 && offsetof(AllGatherOptions, element_size) == 32 &&
              offsetof(AllGatherOptions, tag) == 40 && offsetof(AllGatherOptions, timeout) == 48);
static_assert(offsetof(BarrierOptions, tag) == 24 && offsetof(BarrierOptions, timeout) == 32);

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

// Options as they lie in memory, which may be too short, or none.
template <class Options>
class Image {
 public:
  Image(const Options& options, bool care) : reader_(care) {
    is_there_ = reader_.read(&options, words_, sizeof words_);
  }
  bool is_there() const { return is_there_; }
  template <class Words>
  Words at(std::size_t offset) const {
    Words words;
    std::memcpy(&words, words_ + offset, sizeof words);
    return words;
  }
  /// What the buffer there says of itself; nothing where there is none.
  std::optional<BufferWords> buffer(std::size_t offset) const {
    BufferWords words{};
    if (!reader_.read(at<const BufferWords*>(offset), words)) return std::nullopt;
    return words;
  }

 private:
  static constexpr std::size_t kBytes =
      std::is_same_v<Options, AllReduceOptions> ? offsetof(AllReduceOptions, max_segment) : sizeof(Options);
  const Reader reader_;
  alignas(Options) std::byte words_[kBytes];
  bool is_there_ = false;
};

constexpr const char* kNoContext = "its context has no rank and size";
constexpr const char* kNoMemory = "its memory cannot be looked at";

bool has_place(const void* context, bool care) {
  return !care || place_in(static_cast<const Context*>(context));
}

std::string look_at(const BufferWords& buffer, std::size_t bytes) {
  if (buffer.size == bytes && (bytes == 0 || buffer.pointer)) return {};
  return fmt::format("a buffer has {} bytes, the elements {}", buffer.size, bytes);
}

std::string look_at(const Reader& reader, const VectorWords& buffers, std::size_t bytes) {
  if (buffers.begin > buffers.end || buffers.end > buffers.room ||
      static_cast<std::size_t>(buffers.end - buffers.begin) > kMostBuffers)
    return "the list of its buffers is none";
  for (BufferWords* const* at = buffers.begin; at != buffers.end; ++at) {
    BufferWords* buffer = nullptr;
    BufferWords words{};
    if (!reader.read(at, buffer) || !reader.read(buffer, words)) return "a buffer is not there";
    if (std::string why = look_at(words, bytes); !why.empty()) return why;
  }
  return {};
}

std::string look_at_elements(std::size_t elements, std::size_t element) {
  if (element >= 1 && element <= kMostElement && elements <= SIZE_MAX / element) return {};
  return fmt::format("its elements have {} bytes", element);
}

std::string look_at_function(const FunctionImage& function, bool care) {
  if (!function.manager || !function.invoker) return "it has no reduction";
  if (care && (!is_in_a_library(function.manager) || !is_in_a_library(function.invoker)))
    return "its reduction is no code";
  return {};
}

// Of those with a root: an output, and perhaps an input.
template <class Options>
std::string look_at_rooted(const Image<Options>& image, bool care) {
  if (!image.is_there()) return kNoMemory;
  const void* context = image.template at<const void*>(0);
  if (!has_place(context, care)) return kNoContext;
  const auto elements = image.template at<std::size_t>(offsetof(Options, elements));
  const auto element = image.template at<std::size_t>(offsetof(Options, element_size));
  if (std::string why = look_at_elements(elements, element); !why.empty()) return why;
  const auto root = image.template at<std::int32_t>(offsetof(Options, root));
  if (care && (root < 0 || root >= place_in(static_cast<const Context*>(context))->size))
    return "its root is no rank";
  const auto out = image.buffer(offsetof(Options, out));
  if (!out) return "it has no output";
  if (std::string why = look_at(*out, elements * element); !why.empty()) return why;
  if (!image.template at<const void*>(offsetof(Options, in))) return {};
  const auto in = image.buffer(offsetof(Options, in));
  return in ? look_at(*in, elements * element) : "a buffer is not there";
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
  const Image image(options, care);
  if (!image.is_there()) return kNoMemory;
  if (!has_place(image.at<const void*>(0), care)) return kNoContext;
  const auto elements = image.at<std::size_t>(offsetof(AllReduceOptions, elements));
  const auto element = image.at<std::size_t>(offsetof(AllReduceOptions, element_size));
  if (std::string why = look_at_elements(elements, element); !why.empty()) return why;
  const auto in = image.at<VectorWords>(offsetof(AllReduceOptions, in));
  const auto out = image.at<VectorWords>(offsetof(AllReduceOptions, out));
  if (out.begin == out.end) return "it has no output";
  for (const VectorWords& buffers : {in, out})
    if (std::string why = look_at(Reader(care), buffers, elements * element); !why.empty()) return why;
  return look_at_function(image.at<FunctionImage>(offsetof(AllReduceOptions, reduce)), care);
}

std::string why_not(const BroadcastOptions& options, bool care) {
  return look_at_rooted(Image(options, care), care);
}

std::string why_not(const ReduceOptions& options, bool care) {
  const Image image(options, care);
  if (std::string why = look_at_rooted(image, care); !why.empty()) return why;
  return look_at_function(image.at<FunctionImage>(offsetof(ReduceOptions, reduce)), care);
}

std::string why_not(const AllGatherOptions& options, bool care) {
  const Image image(options, care);
  if (!image.is_there()) return kNoMemory;
  const void* context = image.at<const void*>(0);
  if (!has_place(context, care)) return kNoContext;
  const auto element = image.at<std::size_t>(offsetof(AllGatherOptions, element_size));
  if (std::string why = look_at_elements(0, element); !why.empty()) return why;
  const auto out = image.buffer(offsetof(AllGatherOptions, out));
  if (!out || (out->size > 0 && !out->pointer)) return "it has no output";
  if (!image.at<const void*>(offsetof(AllGatherOptions, in))) return {};
  const auto in = image.buffer(offsetof(AllGatherOptions, in));
  if (!in) return "a buffer is not there";
  if (!care) return {};
  const auto ranks = static_cast<std::size_t>(place_in(static_cast<const Context*>(context))->size);
  if (out->size % ranks != 0)
    return fmt::format("{} bytes are not to be shared by {} ranks", out->size, ranks);
  return look_at(*in, out->size / ranks);
}

std::string why_not(const BarrierOptions& options, bool care) {
  const Image image(options, care);
  if (!image.is_there()) return kNoMemory;
  if (!has_place(image.at<const void*>(0), care)) return kNoContext;
  const auto buffer = image.buffer(offsetof(BarrierOptions, buffer));
  return buffer && buffer->size == 0 ? "" : "its buffer is none";
}

}  // namespace ddl::gloo
