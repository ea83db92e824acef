#include "interpose/gloo/contexts.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "core/base/clock.hpp"
#include "core/base/log.hpp"
#include "core/base/signals.hpp"
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

using namespace std::chrono_literals;
constexpr std::chrono::seconds kPatience = 5s;  // with other ranks, before gloo makes a call
constexpr std::chrono::seconds kGrace = 3s;     // after a call that all have made, for them to have met
constexpr std::chrono::milliseconds kEver = std::chrono::hours(24 * 365);

// Known of one context. From then on this rank is as one without the shim, too, which saves new contexts the
// patience.
std::atomic<bool> some_lack_the_shim = false;
constexpr std::string_view kNoShim = "a rank runs without libddl_shim.so",
                           kGlooFailed = "gloo failed while the ranks met";

// Once for all groups of the process: what one lacks the next lacks, too.
void warn_once(const std::string& text) {
  static auto& mutex = *new std::mutex;
  static auto& said = *new std::set<std::string>;
  std::lock_guard lock(mutex);
  if (said.insert(text).second) log_warning(text);
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

Maker EngineContext::maker_of(std::uint64_t key, const std::shared_ptr<Context>& context,
                              std::chrono::milliseconds timeout, Original all_reduce) {
  Phase phase = phase_.load(std::memory_order_acquire);
  if (phase == Phase::fresh || phase == Phase::meeting) {
    Lock lock(mutex_);
    if (phase_ == Phase::fresh) start_meeting(context, all_reduce);
    if (leaves_early(key, timeout, lock)) return Maker::gloo_early;
    phase = phase_;
  }
  if (phase != Phase::served) return Maker::gloo;
  if (has_early_.load(std::memory_order_relaxed)) {
    Lock lock(mutex_);
    const bool was_early = early_.take(key);
    has_early_ = !early_.is_empty();
    if (was_early) return Maker::gloo_early;
  }
  return Maker::engine;
}

// With the lock.
void EngineContext::start_meeting(const std::shared_ptr<Context>& context, Original all_reduce) {
  if (some_lack_the_shim) {
    phase_ = Phase::left;
    why_not_ = kNoShim;
    return;
  }
  phase_ = Phase::meeting;
  patient_until_ = std::chrono::steady_clock::now() + kPatience;
  auto body = [self = shared_from_this(), held = context, all_reduce]() mutable {
    std::string why_not(kGlooFailed);
    try {
      why_not = self->meet(held, all_reduce);
    } catch (...) {  // gloo's: the calls that wait here will hear it from gloo
    }
    held.reset();  // before anybody goes on, who may end it
    self->end_meeting(why_not);
  };
  const SignalsBlocked blocked;
  try {
    std::thread(std::move(body)).detach();
  } catch (const std::system_error&) {  // the others find out as if the shim were not there
    phase_ = Phase::left;
    why_not_ = "no thread is to be had";
  }
}

// Waits until the ranks have met; or not: then gloo makes the call.
bool EngineContext::leaves_early(std::uint64_t key, std::chrono::milliseconds timeout, Lock& lock) {
  const auto is_over = [this] { return phase_ != Phase::meeting; };
  if (timeout.count() <= 0) timeout = kEver;
  const auto until = std::min(patient_until_, std::chrono::steady_clock::now() + timeout / 2);
  if (concluded_.wait_until(lock, until, is_over)) return false;
  if (early_.add(key)) return true;
  if (!concluded_.wait_for(lock, timeout, is_over)) give_up(lock);
  return false;
}

void EngineContext::all_were_early() {
  Lock lock(mutex_);
  concluded_.wait_for(lock, kGrace, [this] { return phase_ != Phase::meeting || all_came_; });
  if (phase_ == Phase::meeting && !all_came_) give_up(lock);
}

// It stays with gloo, on all ranks: this one says no if they meet later.
void EngineContext::give_up(Lock& lock) {
  if (phase_ != Phase::meeting) return;
  phase_ = Phase::left;
  why_not_ = kNoShim;
  concluded_.notify_all();
  const bool is_said = some_lack_the_shim.exchange(true);
  lock.unlock();
  if (is_said) return;
  try {
    const std::string text = text_of_those_without_shim(processes_of_this_job(), getpid());
    if (!text.empty()) log_warning("gloo's calls stay with gloo: " + text);
  } catch (const std::exception&) {  // it was only to help, and no exception of ours may reach the program
  }
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

void EngineContext::end_meeting(const std::string& why_not) {
  Lock lock(mutex_);
  if (why_not == kGlooFailed && phase_ == Phase::meeting) {
    lock.unlock();  // said before the calls that wait go on to gloo's exception, which may end the program
    log_warning(
        "gloo failed before all ranks had come to their first call; where all of them should have come, see "
        "that the shim is preloaded on each");
    lock.lock();
  }
  const bool has_given_up = phase_ != Phase::meeting, is_served = why_not.empty() && !has_given_up;
  ddl_context* const over = is_served ? nullptr : std::exchange(context_, nullptr);
  if (!has_given_up) {
    why_not_ = why_not;
    phase_ = is_served ? Phase::served : Phase::left;
    concluded_.notify_all();
  }
  lock.unlock();
  if (over) engine_->destroy(over);
}

// Why the engine does not make this context's calls; "": it does.
std::string EngineContext::meet(const std::shared_ptr<Context>& context, Original all_reduce) {
  const CreateBuffer create = create_buffer_of(all_reduce);
  if (!create) {
    const std::string why = "gloo's library does not offer gloo::Context::createUnboundBuffer";
    log_warning("gloo's calls stay with gloo: " + why);
    return why;  // the same on all ranks, if they run the same program
  }
  Meeting meeting(rank_, size_);
  auto gloo_reduces = [&] {
    const Round round(context, kEver, create, meeting.bytes());
    all_reduce(&round.options);
  };
  begin(meeting);
  gloo_reduces();
  if (std::string why = conclude(meeting); !why.empty()) return why;
  join(meeting);
  gloo_reduces();
  if (std::string why = conclude(meeting); !why.empty()) return why;
  may_measure_ = engine_->may_measure(context_) != 0;
  std::lock_guard lock(mutex_);
  early_.hear(meeting.early());
  has_early_ = !early_.is_empty();
  return {};
}

Routes::Choice EngineContext::begin(Routes::Class of_class, std::uint32_t tag, std::uint64_t key,
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
  Lock lock(mutex_);
  all_came_ = true;
  concluded_.notify_all();
  const bool joins = phase_ == Phase::meeting;
  lock.unlock();
  ddl_problem problem{};
  if (joins && !engine_->join(context_, meeting.id().data(), &problem)) trouble_ = problem.text;
  lock.lock();
  if (phase_ != Phase::meeting && trouble_.empty()) trouble_ = kNoShim;
  meeting.start(trouble_.empty(), {}, early_.tell());
}

// One line for the job: by the lowest rank that is in trouble.
std::string EngineContext::conclude(const Meeting& meeting) const {
  std::string why;
  if (Rank strange = meeting.who_is_strange(); strange >= 0)
    why = fmt::format("rank {} runs another version of the engine", strange);
  else if (Rank who = meeting.who_says_no(); who >= 0)
    why = who == rank_ ? trouble_ : fmt::format("rank {} runs without the engine", who);
  if (why.empty()) return why;
  const bool is_known = trouble_ == "DDL_ENABLE=0" || trouble_ == kNoShim;
  if ((meeting.who_says_no() == rank_ && !is_known) || (rank_ == 0 && meeting.who_is_strange() >= 0))
    warn_once(fmt::format("gloo's calls stay with gloo: {}", why));
  return why;
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
