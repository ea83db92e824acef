#include "interpose/gloo/call.hpp"

#include <algorithm>
#include <array>
#include <atomic>

#include "core/base/env.hpp"
#include "core/base/log.hpp"

namespace ddl::gloo {
namespace {

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

const void* pointer_of(const std::unique_ptr<UnboundBuffer>& in,
                       const std::unique_ptr<UnboundBuffer>& otherwise) {
  return (in ? in : otherwise)->pointer;
}

GlooCall call_of(const AllReduceOptions& options) {
  return {DDL_GLOO_ALL_REDUCE,  options.context, options.timeout,         options.tag, options.elements,
          options.element_size, nullptr,         options.out[0]->pointer, 0,           &options.reduce};
}
template <class Options>
GlooCall rooted_call_of(ddl_gloo_function function, const Options& options, const ReduceFunction* reduce) {
  return {function,
          options.context,
          options.timeout,
          options.tag,
          options.elements,
          options.element_size,
          pointer_of(options.in, options.out),
          options.out->pointer,
          options.root,
          reduce};
}
GlooCall call_of(const BroadcastOptions& options) {
  return rooted_call_of(DDL_GLOO_BROADCAST, options, nullptr);
}
GlooCall call_of(const ReduceOptions& options) {
  return rooted_call_of(DDL_GLOO_REDUCE, options, &options.reduce);
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

// For all functions, and all ranks, that it may be about.
void say_once(const std::string& why) {
  static std::atomic<bool> said = false;
  if (said.exchange(true)) return;
  if (std::string rank = launcher_rank(); rank.empty() || rank == "0")
    log_warning("calls of gloo's are left to gloo: one is none that we know: " + why);
}

template <class Options>
std::optional<GlooCall> read(const void* memory, TrustedLibraries& trusted, Original all_reduce) {
  const auto& options = *static_cast<const Options*>(memory);
  const bool is_known = trusted.knows(all_reduce);
  const std::string why = why_not(options, !is_known);
  if (!why.empty()) return say_once(why), std::nullopt;
  if (!is_known) trusted.add(all_reduce);
  return call_of(options);
}

}  // namespace

std::optional<GlooCall> read_call(ddl_gloo_function function, const void* options, Original all_reduce) {
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

const char* name_of(ddl_gloo_function function) {
  static constexpr const char* names[DDL_GLOO_FUNCTIONS] = {
      "gloo::allreduce", "gloo::broadcast", "gloo::reduce", "gloo::allgather", "gloo::barrier"};
  return names[function];
}

}  // namespace ddl::gloo
