// What gloo's classes look like in memory, as far as they are used here: the one place that knows. The same
// in gloo of 2022 (Debian's) and of 2026 (inside PyTorch 2.15's libtorch_cpu), but for Context.
//
// Nothing here is gloo's code or links with it: these are mirrors. So a call whose options do not make sense
// as these is left alone; the first ones of a library are read with care, see why_not().
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/reduce/recognise.hpp"

namespace ddl::gloo {

/// gloo::transport::UnboundBuffer.
struct UnboundBuffer {
  virtual ~UnboundBuffer();
  void* pointer;
  std::size_t size;  // bytes
};

/// gloo::Context: rank and size, after a vtable in gloo of 2022, without one in that of 2026.
struct Context;

struct Place {
  int rank, size;
};

/// This process's place in a context; nothing where it has neither form. Touches memory with care.
std::optional<Place> place_in(const Context* context);

/// gloo::AllreduceOptions. Without inputs the outputs are the inputs; several of either are reduced, too.
struct AllReduceOptions {
  std::shared_ptr<Context> context;
  std::chrono::milliseconds timeout{0};
  std::int32_t algorithm = 0;
  std::vector<std::unique_ptr<UnboundBuffer>> in;
  std::vector<std::unique_ptr<UnboundBuffer>> out;
  std::size_t elements = 0;
  std::size_t element_size = 0;
  ReduceFunction reduce;
  std::uint32_t tag = 0;
  std::size_t max_segment = 1 << 20;
  std::byte room[64] = {};  // for what later versions add
};

/// gloo::BroadcastOptions. Only the root may have an input; where it has none, its output is the input.
struct BroadcastOptions {
  std::shared_ptr<Context> context;
  std::unique_ptr<UnboundBuffer> in, out;
  std::size_t elements = 0;
  std::size_t element_size = 0;
  std::int32_t root = -1;
  std::uint32_t tag = 0;
  std::chrono::milliseconds timeout{0};
};

/// gloo::ReduceOptions. Without an input the output is the input.
struct ReduceOptions {
  std::shared_ptr<Context> context;
  std::unique_ptr<UnboundBuffer> in, out;
  std::size_t elements = 0;
  std::size_t element_size = 0;
  std::int32_t root = -1;
  ReduceFunction reduce;
  std::uint32_t tag = 0;
  std::size_t max_segment = 1 << 20;
  std::chrono::milliseconds timeout{0};
};

/// gloo::AllgatherOptions. Without an input the input is this rank's part of the output.
struct AllGatherOptions {
  std::shared_ptr<Context> context;
  std::unique_ptr<UnboundBuffer> in, out;
  std::size_t element_size = 0;
  std::uint32_t tag = 0;
  std::chrono::milliseconds timeout{0};
};

/// gloo::BarrierOptions, with an empty buffer.
struct BarrierOptions {
  std::shared_ptr<Context> context;
  std::unique_ptr<UnboundBuffer> buffer;
  std::uint32_t tag = 0;
  std::chrono::milliseconds timeout{0};
};

/// gloo::Context::createUnboundBuffer(void*, size_t).
constexpr const char* kCreateBuffer = "_ZN4gloo7Context19createUnboundBufferEPvm";
using CreateBuffer = std::unique_ptr<UnboundBuffer> (*)(Context* self, void* pointer, std::size_t size);

/// Why these are not options as above, "" where they make sense. With `care` memory is not touched before the
/// kernel says that it is there: what is somewhere else in another version must not end the program.
std::string why_not(const AllReduceOptions& options, bool care);
std::string why_not(const BroadcastOptions& options, bool care);
std::string why_not(const ReduceOptions& options, bool care);
std::string why_not(const AllGatherOptions& options, bool care);
std::string why_not(const BarrierOptions& options, bool care);

}  // namespace ddl::gloo
