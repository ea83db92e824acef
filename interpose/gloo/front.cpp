// What becomes of a call of gloo's. The rule: whether it goes to the engine follows from function, size,
// type, operation and context alone, because two threads of every rank take these calls from one queue, and
// may make them in different orders; so calls meet by their tag.
//
// Exceptions: gloo's may pass through here, but only where its own function is called, in a meeting.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <string>

#include "core/base/log.hpp"
#include "core/engine_types.hpp"
#include "interpose/front.h"
#include "interpose/gloo/contexts.hpp"
#include "interpose/gloo/layout.hpp"
#include "interpose/gloo/reductions.hpp"
#include "interpose/gloo/report.hpp"

namespace ddl::gloo {
namespace {

KnownReductions& reductions() {
  static auto& known = *new KnownReductions;  // outlives exit handlers of the program
  return known;
}

// Gloo's libraries whose options have made sense once.
class TrustedLibraries {
 public:
  bool knows(Original original) const {
    return std::any_of(known_.begin(), known_.end(), [&](const auto& one) { return one == original; });
  }
  void add(Original original) {
    for (auto& one : known_) {
      Original none = nullptr;
      if (one.compare_exchange_strong(none, original) || none == original) return;
    }
  }

 private:
  std::array<std::atomic<Original>, 4> known_{};
};

constexpr const char* kNames[DDL_GLOO_FUNCTIONS] = {"gloo::allreduce", "gloo::broadcast", "gloo::reduce",
                                                    "gloo::allgather", "gloo::barrier"};

// A call of gloo's: what the engine needs to know of it, once its context is known.
struct GlooCall {
  ddl_gloo_function function;
  std::shared_ptr<Context> context;
  std::chrono::milliseconds timeout;
  std::uint32_t tag;
  std::size_t
      elements;  // of all that is brought to an all-reduce, broadcast or reduce, and got of an all-gather
  std::size_t element_size;
  const void* in = nullptr;
  void* out = nullptr;
  Rank root = 0;
  const ReduceFunction* reduce = nullptr;
  std::size_t in_bytes = 0;  // of an all-gather that has an input

  Bytes bytes() const { return elements * element_size; }
};

const void* pointer_of(const std::unique_ptr<UnboundBuffer>& in,
                       const std::unique_ptr<UnboundBuffer>& otherwise) {
  return (in ? in : otherwise)->pointer;
}

GlooCall call_of(const AllReduceOptions& options) {
  return {DDL_GLOO_ALL_REDUCE,  options.context, options.timeout,         options.tag, options.elements,
          options.element_size, nullptr,         options.out[0]->pointer, 0,           &options.reduce};
}
GlooCall call_of(const BroadcastOptions& options) {
  return {DDL_GLOO_BROADCAST,
          options.context,
          options.timeout,
          options.tag,
          options.elements,
          options.element_size,
          pointer_of(options.in, options.out),
          options.out->pointer,
          options.root};
}
GlooCall call_of(const ReduceOptions& options) {
  return {DDL_GLOO_REDUCE,
          options.context,
          options.timeout,
          options.tag,
          options.elements,
          options.element_size,
          pointer_of(options.in, options.out),
          options.out->pointer,
          options.root,
          &options.reduce};
}
GlooCall call_of(const AllGatherOptions& options) {
  GlooCall call{DDL_GLOO_ALL_GATHER, options.context, options.timeout, options.tag, options.out->size, 1};
  call.out = options.out->pointer;
  if (!options.in) return call;
  call.in = options.in->pointer;
  call.in_bytes = options.in->size;
  return call;
}
GlooCall call_of(const BarrierOptions& options) {
  return {DDL_GLOO_BARRIER, options.context, options.timeout, options.tag, 1, 1};
}

// Nothing where these are no options that we know, which is said once.
template <class Options>
std::optional<GlooCall> read(const void* memory, TrustedLibraries& trusted, Original all_reduce) {
  static std::atomic<bool> said = false;
  const auto& options = *static_cast<const Options*>(memory);
  const bool is_known = trusted.knows(all_reduce);
  const std::string why = why_not(options, !is_known);
  if (!why.empty()) {
    if (!said.exchange(true))
      log_warning("a call of gloo's is left to gloo: it is none that we know: " + why);
    return std::nullopt;
  }
  if (!is_known) trusted.add(all_reduce);
  return call_of(options);
}

std::optional<GlooCall> read(ddl_gloo_function function, const void* options, Original all_reduce) {
  static TrustedLibraries trusted[DDL_GLOO_FUNCTIONS];
  TrustedLibraries& those = trusted[function];
  switch (function) {
    case DDL_GLOO_ALL_REDUCE:
      return read<AllReduceOptions>(options, those, all_reduce);
    case DDL_GLOO_BROADCAST:
      return read<BroadcastOptions>(options, those, all_reduce);
    case DDL_GLOO_REDUCE:
      return read<ReduceOptions>(options, those, all_reduce);
    case DDL_GLOO_ALL_GATHER:
      return read<AllGatherOptions>(options, those, all_reduce);
    case DDL_GLOO_BARRIER:
      return read<BarrierOptions>(options, those, all_reduce);
    default:
      return std::nullopt;
  }
}

// What several buffers of this rank come to, before and after all ranks' do. The first output takes it.
const void* gather_in(const AllReduceOptions& call) {
  const auto& from = call.in.empty() ? call.out : call.in;
  const void* so_far = from[0]->pointer;
  for (std::size_t i = 1; i < from.size(); ++i) {
    call.reduce(call.out[0]->pointer, so_far, from[i]->pointer, call.elements);
    so_far = call.out[0]->pointer;
  }
  return so_far;
}
void spread_out(const AllReduceOptions& call) {
  for (std::size_t i = 1; i < call.out.size(); ++i)
    std::memcpy(call.out[i]->pointer, call.out[0]->pointer, call.out[0]->size);
}

// Calls of different functions may have the same tag.
std::uint64_t key_of(const GlooCall& call) { return call.tag * std::uint64_t{8} + call.function; }
static_assert(DDL_GLOO_FUNCTIONS <= 8);

// The engine has no barrier: an all-reduce ends when all ranks have begun it.
constexpr ddl_kind kKinds[DDL_GLOO_FUNCTIONS] = {DDL_ALL_REDUCE, DDL_BROADCAST, DDL_REDUCE, DDL_ALL_GATHER,
                                                 DDL_ALL_REDUCE};

bool run(EngineContext& context, const GlooCall& call, const Reduction& reduction, const void* options) {
  const auto timeout = static_cast<std::uint64_t>(std::max<std::int64_t>(call.timeout.count(), 0));
  ddl_collective_call made{kKinds[call.function],
                           call.in,
                           call.out,
                           call.elements,
                           to_c(reduction.type),
                           to_c(reduction.op),
                           call.root,
                           0,
                           kNames[call.function],
                           nullptr,
                           nullptr,
                           {},
                           {},
                           0,
                           0,
                           0};
  std::uint8_t mine = 0, all = 0;
  switch (call.function) {
    case DDL_GLOO_ALL_REDUCE:
      made.in = gather_in(*static_cast<const AllReduceOptions*>(options));
      break;
    case DDL_GLOO_BROADCAST:
      made.count = call.bytes();
      break;
    case DDL_GLOO_ALL_GATHER:
      made.count = call.bytes() / static_cast<std::size_t>(context.size());
      if (!made.in)
        made.in =
            static_cast<const std::byte*>(call.out) + static_cast<std::size_t>(context.rank()) * made.count;
      break;
    case DDL_GLOO_BARRIER:
      made.in = &mine;
      made.out = &all;
      break;
    default:
      break;
  }
  if (!context.run({made, key_of(call), timeout})) return false;
  if (call.function == DDL_GLOO_ALL_REDUCE) spread_out(*static_cast<const AllReduceOptions*>(options));
  return true;
}

// What a call needs to go to the engine.
struct Served {
  std::optional<GlooCall> call;
  std::shared_ptr<EngineContext> context;      // null: it does not
  Reduction reduction{DType::uint8, Op::max};  // of bytes that are moved, any
  const char* why_not = nullptr;
};

bool is_shared_evenly(const GlooCall& all_gather, Rank size) {
  const auto ranks = static_cast<std::size_t>(size);
  return all_gather.bytes() % ranks == 0 &&
         (!all_gather.in || all_gather.in_bytes == all_gather.bytes() / ranks);
}

Served look_at(ddl_gloo_function function, const void* options, Original all_reduce) {
  Served served;
  served.call = read(function, options, all_reduce);
  auto left = [&](const char* why) {
    served.why_not = why;
    return served;
  };
  if (!served.call) return left("unknown options");
  const GlooCall& call = *served.call;
  if (call.elements == 0) return left("no elements");
  std::shared_ptr<EngineContext> context = engine_context_of(call.context);
  if (!context) return left("unknown options");
  if (context->size() == 1) return left("one rank");
  if (function == DDL_GLOO_ALL_GATHER && !is_shared_evenly(call, context->size()))
    return left("unknown options");
  if (call.reduce) {
    const std::optional<Reduction> reduction = reductions().of(*call.reduce, call.element_size);
    if (!reduction) return left("operation");
    served.reduction = *reduction;
  }
  served.context = std::move(context);
  return served;
}

template <class Result, class Body>
Result guarded(Result otherwise, Body body) noexcept {
  try {
    return body();
  } catch (...) {  // no memory
    return otherwise;
  }
}

ddl_gloo_outcome original_does(ddl_gloo_function function, const Served& served, const char* why) {
  guarded(0,
          [&] { return count_original(kNames[function], why, served.call ? served.call->bytes() : 0), 0; });
  return DDL_GLOO_ORIGINAL;
}

ddl_gloo_outcome run(ddl_gloo_function function, const void* options, Original all_reduce,
                     char error[DDL_GLOO_ERROR_BYTES]) {
  Served served =
      guarded(Served{{}, nullptr, {}, "no memory"}, [&] { return look_at(function, options, all_reduce); });
  if (!served.context) return original_does(function, served, served.why_not);
  const GlooCall& call = *served.call;
  if (!served.context->is_served(call.context, call.timeout, all_reduce))
    return original_does(function, served, "the engine is not used");
  return guarded(DDL_GLOO_RAISE, [&] {
    std::strcpy(error, "ddl: an error in the engine");
    if (run(*served.context, call, served.reduction, options)) return DDL_GLOO_DONE;
    const std::string text = "ddl: " + served.context->failure();
    std::strncpy(error, text.c_str(), DDL_GLOO_ERROR_BYTES - 1);
    error[DDL_GLOO_ERROR_BYTES - 1] = 0;
    return DDL_GLOO_RAISE;
  });
}

}  // namespace
}  // namespace ddl::gloo

extern "C" __attribute__((visibility("default"))) int ddl_gloo_front(uint32_t version,
                                                                     ddl_gloo_functions* front) {
  if (version != DDL_FRONT_VERSION) return 0;
  try {
    ddl::gloo::start_report();
  } catch (...) {
    return 0;
  }
  front->run = ddl::gloo::run;
  return 1;
}
