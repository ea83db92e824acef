#include "interpose/gloo/contexts.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "core/base/clock.hpp"
#include "core/base/log.hpp"
#include "interpose/gloo/missing_shim.hpp"
#include "interpose/load_engine.hpp"

namespace ddl::gloo {
namespace {

// The function of the library that `original` is from, or of one that this is linked to.
CreateBuffer create_buffer_of(Original original) {
  Dl_info found;
  if (!dladdr(reinterpret_cast<const void*>(original), &found)) return nullptr;
  void* library = dlopen(found.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  void* function = library ? dlsym(library, kCreateBuffer) : nullptr;
  if (library) dlclose(library);  // it stays as long as the program keeps it
  return reinterpret_cast<CreateBuffer>(function);
}

// Of all contexts of the process.
TrialBudget& trial_budget() {
  static auto& budget = *new TrialBudget(now());  // outlives exit handlers of the program
  return budget;
}

// What the ranks talk about while they make a call has keys beyond those of all calls.
constexpr std::uint64_t kTalk = std::uint64_t{1} << 40;

}  // namespace

EngineContext::EngineContext(const std::shared_ptr<Context>& of, const Place& place)
    : original_(of), rank_(place.rank), size_(place.size), routes_(trial_budget()) {}

EngineContext::~EngineContext() {
  if (context_) engine_->destroy(context_);
}

void EngineContext::write_report(const std::vector<std::string>& parts) const {
  std::vector<const char*> texts;
  for (const std::string& part : parts) texts.push_back(part.c_str());
  engine_->write_report(context_, texts.size(), texts.data());
}

bool EngineContext::is_served(const std::shared_ptr<Context>& context, std::chrono::milliseconds timeout,
                              Original all_reduce) {
  Phase phase = phase_.load(std::memory_order_acquire);
  if (phase == Phase::fresh || phase == Phase::meeting) {
    std::unique_lock lock(mutex_);
    concluded_.wait(lock, [&] { return phase_ != Phase::meeting; });
    if (phase_ == Phase::fresh) {
      phase_ = Phase::meeting;
      lock.unlock();
      meet(context, timeout, all_reduce);
    }
    phase = phase_;
  }
  return phase == Phase::served;
}

// A round of a meeting as gloo sees it.
struct EngineContext::Round {
  AllReduceOptions options;

  Round(const std::shared_ptr<Context>& context, std::chrono::milliseconds timeout, CreateBuffer create,
        std::span<std::byte> bytes) {
    options.context = context;
    options.timeout = timeout;
    options.out.push_back(create(context.get(), bytes.data(), bytes.size()));
    options.elements = bytes.size();
    options.element_size = 1;
    options.reduce = Meeting::reduce;
    options.tag = Meeting::kTag;
  }
};

std::string EngineContext::why_not() const {
  std::lock_guard lock(mutex_);
  return phase_ == Phase::left ? why_not_ : "";
}

// Also when gloo has thrown: then why_not_ is empty.
void EngineContext::end_meeting(bool is_served) {
  if (!is_served) {
    if (ddl_context* context = std::exchange(context_, nullptr)) engine_->destroy(context);
    if (why_not_.empty()) {
      why_not_ = "gloo failed while the ranks met";
      log_warning(
          "gloo failed before all ranks had come to their first call; where all of them should have come, "
          "see "
          "that the shim is preloaded on each");
    }
  }
  std::lock_guard lock(mutex_);
  phase_ = is_served ? Phase::served : Phase::left;
  concluded_.notify_all();
}

void EngineContext::meet(const std::shared_ptr<Context>& context, std::chrono::milliseconds timeout,
                         Original all_reduce) {
  struct Ending {
    EngineContext& self;
    bool is_served = false;
    ~Ending() { self.end_meeting(is_served); }
  } ending{*this};
  const CreateBuffer create = create_buffer_of(all_reduce);
  if (!create) {
    why_not_ = "gloo's library does not offer gloo::Context::createUnboundBuffer";
    log_warning("gloo's calls stay with gloo: " + why_not_);
    return;  // the same on all ranks, if they run the same program
  }
  Meeting meeting(rank_, size_);
  const MissingShimWatch watch;
  auto gloo_reduces = [&] {
    const Round round(context, timeout, create, meeting.bytes());
    all_reduce(&round.options);
  };
  begin(meeting);
  gloo_reduces();
  if (conclude(meeting); !why_not_.empty()) return;
  join(meeting);
  gloo_reduces();
  if (conclude(meeting); !why_not_.empty()) return;
  may_measure_ = engine_->may_measure(context_) != 0;
  ending.is_served = true;
}

Routes::Route EngineContext::begin(Routes::Class of_class, std::uint32_t tag, std::uint64_t key,
                                   std::uint64_t timeout_ms) {
  if (!may_measure_) return {};
  return routes_.begin(of_class, tag, [&](std::span<std::int64_t> numbers, int talk) {
    ddl_context_call call{};
    call.call.kind = DDL_ALL_REDUCE;
    call.call.in = call.call.out = numbers.data();
    call.call.count = numbers.size();
    call.call.type = DDL_INT64;
    call.call.op = DDL_MAX;
    call.call.name = "";
    call.key = key + kTalk * static_cast<std::uint64_t>(1 + talk);
    call.timeout_ms = timeout_ms;
    return run(call);
  });
}

void EngineContext::begin(Meeting& meeting) {
  std::byte id[Meeting::kIdBytes] = {};
  static const char* why = "";
  static const ddl_engine_api* const engine = load_engine(&why);
  trouble_ = engine ? "" : why;
  if (engine) {
    engine_ = engine->context;
    ddl_problem problem{};
    context_ = engine_->create(rank_, size_, id, &problem);
    if (!context_) trouble_ = problem.text;
  }
  meeting.start(trouble_.empty(), rank_ == 0 ? std::span<const std::byte>(id) : std::span<const std::byte>());
}

void EngineContext::join(Meeting& meeting) {
  ddl_problem problem{};
  if (!engine_->join(context_, meeting.id().data(), &problem)) trouble_ = problem.text;
  meeting.start(trouble_.empty());
}

// One line for the job: by the lowest rank that is in trouble.
void EngineContext::conclude(const Meeting& meeting) {
  if (Rank strange = meeting.who_is_strange(); strange >= 0)
    why_not_ = fmt::format("rank {} runs another version of the engine", strange);
  else if (Rank who = meeting.who_says_no(); who >= 0)
    why_not_ = who == rank_ ? trouble_ : fmt::format("rank {} runs without the engine", who);
  if (why_not_.empty()) return;
  const bool speaks = meeting.who_says_no() == rank_ && trouble_ != "DDL_ENABLE=0";
  if (speaks || (rank_ == 0 && meeting.who_is_strange() >= 0))
    log_warning(fmt::format("gloo's calls stay with gloo: {}", why_not_));
}

std::shared_ptr<EngineContext> EngineContexts::of(const std::shared_ptr<Context>& context,
                                                  EngineContextList& over) {
  std::lock_guard lock(mutex_);
  for (std::size_t i = all_.size(); i-- > 0;)
    if (all_[i]->is_over()) {
      over.push_back(std::move(all_[i]));
      all_.erase(all_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  for (const auto& one : all_)
    if (one->is_of(context)) return one;
  const std::optional<Place> place = place_in(context.get());
  if (!place) return nullptr;
  all_.push_back(std::make_shared<EngineContext>(context, *place));
  return all_.back();
}

EngineContextList EngineContexts::all() const {
  std::lock_guard lock(mutex_);
  return all_;
}

}  // namespace ddl::gloo
