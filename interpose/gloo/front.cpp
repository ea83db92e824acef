// What becomes of an all-reduce of gloo's. The rule: whether it goes to the engine follows from size, type,
// operation and context alone, because two threads of every rank take these calls from one queue, and may
// make them in different orders; so calls meet by their tag.
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
TrustedLibraries trusted;

bool makes_sense(const AllReduceOptions& call, Original original) {
  static std::atomic<bool> said = false;
  const bool is_known = trusted.knows(original);
  const std::string why = why_not(call, !is_known);
  if (why.empty()) {
    if (!is_known) trusted.add(original);
    return true;
  }
  if (!said.exchange(true))
    log_warning("an all-reduce of gloo's is left to gloo: it is none that we know: " + why);
  return false;
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

bool run(EngineContext& context, const AllReduceOptions& call, const Reduction& reduction) {
  const void* in = gather_in(call);
  const auto timeout = static_cast<std::uint64_t>(std::max<std::int64_t>(call.timeout.count(), 0));
  if (!context.all_reduce({in, call.out[0]->pointer, call.elements, to_c(reduction.type), to_c(reduction.op),
                           kCollective, call.tag, timeout}))
    return false;
  spread_out(call);
  return true;
}

// What a call needs to go to the engine.
struct Served {
  std::shared_ptr<EngineContext> context;
  std::optional<Reduction> reduction;
  const char* why_not = nullptr;
};

Served look_at(const AllReduceOptions& call, Original original) {
  if (!makes_sense(call, original)) return {nullptr, {}, "unknown options"};
  if (call.elements == 0) return {nullptr, {}, "no elements"};
  std::shared_ptr<EngineContext> context = context_of(call);
  if (!context) return {nullptr, {}, "unknown options"};
  if (context->size() == 1) return {nullptr, {}, "one rank"};
  const std::optional<Reduction> reduction = reductions().of(call.reduce, call.element_size);
  if (!reduction) return {nullptr, {}, "operation"};
  return {std::move(context), reduction, nullptr};
}

template <class Result, class Body>
Result guarded(Result otherwise, Body body) noexcept {
  try {
    return body();
  } catch (...) {  // no memory
    return otherwise;
  }
}

ddl_gloo_outcome original_does(const AllReduceOptions& call, const char* why) {
  guarded(0, [&] { return count_original(call, why), 0; });
  return DDL_GLOO_ORIGINAL;
}

ddl_gloo_outcome all_reduce(const void* options, Original original, char error[DDL_GLOO_ERROR_BYTES]) {
  const auto& call = *static_cast<const AllReduceOptions*>(options);
  Served served = guarded(Served{nullptr, {}, "no memory"}, [&] { return look_at(call, original); });
  if (!served.context) return original_does(call, served.why_not);
  if (!served.context->is_served(call, original)) return original_does(call, "the engine is not used");
  return guarded(DDL_GLOO_RAISE, [&] {
    std::strcpy(error, "ddl: an error in the engine");
    if (run(*served.context, call, *served.reduction)) return DDL_GLOO_DONE;
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
  front->all_reduce = ddl::gloo::all_reduce;
  return 1;
}
