// What becomes of a call of gloo's. The rule: whether it goes to the engine follows from function, size,
// type, operation and context alone, because two threads of every rank take these calls from one queue, and
// may make them in different orders; so calls meet by their tag.
//
// Exceptions: gloo's may pass through here, but only where its own functions are called: to measure them, and
// before the ranks have met.
#include <algorithm>
#include <cstring>
#include <string>

#include "core/api/c_types.hpp"
#include "core/base/log.hpp"
#include "core/plan/choice.hpp"
#include "interpose/gloo/call.hpp"
#include "interpose/gloo/reductions.hpp"
#include "interpose/gloo/report.hpp"

namespace ddl::gloo {
namespace {

KnownReductions& reductions() {
  static auto& known = *new KnownReductions;  // outlives exit handlers of the program
  return known;
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

// The engine has no barrier: an all-reduce ends when all ranks have begun it.
constexpr ddl_kind kKinds[DDL_GLOO_FUNCTIONS] = {DDL_ALL_REDUCE, DDL_BROADCAST, DDL_REDUCE, DDL_ALL_GATHER,
                                                 DDL_ALL_REDUCE};

// How the engine reduces for a call.
struct HowToReduce {
  Reduction kernel{DType::uint8, Op::max};  // of bytes that are moved, any
  bool is_own = false;  // by the program's function; the type tells how large an element is
};

// Of functions that it does not know the engine must know how large the elements are.
std::optional<HowToReduce> how_to_reduce(const GlooCall& call) {
  if (!call.reduce) return HowToReduce{};
  if (const std::optional<Reduction> known = reductions().of(*call.reduce, call.element_size))
    return HowToReduce{*known, false};
  if (const std::optional<DType> layout = layout_of(call.element_size))
    return HowToReduce{{*layout, Op::bor}, true};
  return std::nullopt;
}

std::uint64_t timeout_of(const GlooCall& call) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(call.timeout.count(), 0));
}

// Tells calls apart that the engine makes alike.
constexpr std::uint8_t kOwnReduction = 1;

bool run(EngineContext& context, const GlooCall& call, const HowToReduce& how, const void* options) {
  ddl_collective_call made{kKinds[call.function],
                           call.in,
                           call.out,
                           call.elements,
                           to_c(how.kernel.type),
                           to_c(how.kernel.op),
                           call.root,
                           0,
                           name_of(call.function),
                           nullptr,
                           nullptr,
                           {},
                           {},
                           0,
                           0,
                           0};
  std::optional<OwnReductionCall> own;
  if (how.is_own) {
    made.combine = OwnReductionCall::combine;
    made.context = &own.emplace(*call.reduce);
    made.variant = kOwnReduction;
  }
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
  if (!context.run({made, key_of(call), timeout_of(call)})) return false;
  if (own && !own->thrown().empty()) return context.fail(own->thrown()), false;
  if (call.function == DDL_GLOO_ALL_REDUCE) spread_out(*static_cast<const AllReduceOptions*>(options));
  return true;
}

// What a call needs to go to the engine.
struct Served {
  std::optional<GlooCall> call;
  std::shared_ptr<EngineContext> context;  // null: it does not
  HowToReduce how;
  const char* why_not = nullptr;
};

bool is_shared_evenly(const GlooCall& all_gather, Rank size) {
  const auto ranks = static_cast<std::size_t>(size);
  return all_gather.bytes() % ranks == 0 &&
         (!all_gather.in || all_gather.in_bytes == all_gather.bytes() / ranks);
}

Served look_at(ddl_gloo_function function, const void* options, Original all_reduce) {
  Served served;
  served.call = read_call(function, options, all_reduce);
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
  const std::optional<HowToReduce> how = how_to_reduce(call);
  if (!how) return left("element size");
  served.how = *how;
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
          [&] { return count_original(name_of(function), why, served.call ? served.call->bytes() : 0), 0; });
  return DDL_GLOO_ORIGINAL;
}

// Calls that are measured as one.
Routes::Class class_of(const GlooCall& call, const HowToReduce& how) {
  const auto type = static_cast<Routes::Class>(how.kernel.type),
             op = static_cast<Routes::Class>(how.kernel.op);
  return size_class(call.bytes()) << 16 | type << 12 | op << 8 | (how.is_own ? 16 : 0) | call.function;
}
static_assert(kDTypes < 16 && kOps <= 16 && DDL_GLOO_FUNCTIONS <= 16);

constexpr const char *kMeasuring = "measured against the engine",
                     *kFaster = "faster than the engine, by measurement",
                     *kEarly = "a rank was late for the first call";

// No rank can end it before all have begun it.
bool needs_all(ddl_gloo_function function) {
  return function == DDL_GLOO_ALL_REDUCE || function == DDL_GLOO_ALL_GATHER || function == DDL_GLOO_BARRIER;
}

ddl_gloo_outcome run(ddl_gloo_function function, const void* options, Original original, Original all_reduce,
                     char error[DDL_GLOO_ERROR_BYTES]) {
  Served served =
      guarded(Served{{}, nullptr, {}, "no memory"}, [&] { return look_at(function, options, all_reduce); });
  if (!served.context) return original_does(function, served, served.why_not);
  const GlooCall& call = *served.call;
  switch (served.context->maker_of(key_of(call), call.context, call.timeout, all_reduce)) {
    case Maker::gloo:
      return original_does(function, served, "the engine is not used");
    case Maker::gloo_early:
      original_does(function, served, kEarly);
      original(options);
      if (needs_all(function)) served.context->all_were_early();
      return DDL_GLOO_DONE;
    case Maker::engine:
      break;
  }
  const Routes::Choice route = guarded(Routes::Choice{true}, [&] {
    return served.context->begin(class_of(call, served.how), call.tag, key_of(call), timeout_of(call));
  });
  if (route.library == TagTuner::Library::original) {
    if (!route.measures) return original_does(function, served, kFaster);
    original_does(function, served, kMeasuring);
    original(options);
    served.context->end(route);
    return DDL_GLOO_DONE;
  }
  return guarded(DDL_GLOO_RAISE, [&] {
    std::strcpy(error, "ddl: an error in the engine");
    if (!route.failed && run(*served.context, call, served.how, options)) {
      served.context->end(route);
      return DDL_GLOO_DONE;
    }
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
