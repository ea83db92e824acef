#include "core/session/session.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <utility>

#include "core/base/clock.hpp"
#include "core/base/cpu_set.hpp"
#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/reduce/reduce.hpp"
#include "core/session/limits.hpp"
#include "core/topology/numa.hpp"

namespace ddl {

Session::Session(JobStart start, SessionOptions options)
    : options_(std::move(options)),
      exchange_(std::move(start.exchange)),
      rank_(exchange_->rank()),
      size_(exchange_->size()),
      endpoint_(rank_, start.hosts, options_.env),
      tuning_(rank_, options_.env, options_.has_original),
      handshake_(*exchange_, *this),
      watch_(nanoseconds_of(options_.env.stall_warn_s), rank_, handshake_.job_map(),
             [this] { return endpoint_.silent_peer(); }) {
  handshake_.start();
}

Session::~Session() { close(); }

void Session::close() {
  if (!exchange_) return;
  keeper_.reset();
  tuning_.save();
  // Before the engine: what the wire still sends belongs to its operations.
  if (engine_) engine_->close_wire();
  if (endpoint_.wire()) endpoint_.wire()->close();
  exchange_.reset();
}

const Conclusion& Session::join() {
  if (options_.join_watch) options_.join_watch->everyone_has_come();
  const Conclusion& conclusion = handshake_.finish();
  if (options_.join_watch) options_.join_watch->end();
  if (!conclusion.joined) {
    engine_.reset();
    endpoint_.let_go();
  }
  watch_.begin(engine_.get(), engine_ ? &activity() : nullptr);
  joined_at_ = now();
  if (rank() == 0 && options_.keeps_report && !env().report.empty()) keep_report();
  return conclusion;
}

void Session::say_conclusion() const {
  const Conclusion& conclusion = handshake_.conclusion();
  if (conclusion.says && options_.env.enable)
    log_warning("collectives use the original library: " + conclusion.reason);
  if (!conclusion.joined || rank() != 0 || env().verbose == 0) return;
  std::string rails;
  for (const std::string& rail : job_map().rails) rails += (rails.empty() ? "" : ", ") + rail;
  log_info(fmt::format("engine on {} of {} ranks, {} host{}{}; kernels {}; nonblocking {}", size(), size(),
                       job_map().hosts(), job_map().hosts() == 1 ? "" : "s",
                       rails.empty() ? "" : ", rails " + rails, reduce_kernel_name(),
                       job_map().nonblocking ? "yes" : "no"));
}

// ---- the steps of joining ----

EndpointInfo Session::describe() {
  EndpointInfo endpoint;
  static_cast<HostIdentity&>(endpoint) = host_identity();
  endpoint.cpus = usable_cpus();
  endpoint.numa_node = numa_node_of(endpoint.cpus);
  endpoint.fake_hosts = env().fake_hosts;
  endpoint.progress_hook = options_.progress_hook;
  endpoint.staging = env().staging_bytes;
  endpoint.segment = env().segment_bytes;
  endpoint.report = !env().report.empty();
  tuning_.describe(endpoint);
  endpoint.trouble = env().enable ? options_.trouble : "DDL_ENABLE=0";
  if (!endpoint.trouble.empty()) return endpoint;
  try {
    endpoint_.describe(endpoint);
  } catch (const std::exception& error) {
    endpoint.trouble = error.what();
  }
  return endpoint;
}

Reach Session::reach(const JobMap& job_map, const std::vector<EndpointInfo>& endpoints) {
  if (options_.speaks_for_process)
    set_log_speaker(fmt::format("rank {} on {}", rank(), endpoints[static_cast<std::size_t>(rank())].host));
  if (rank() == 0)
    for (const std::string& note : job_map.notes) log_warning(note);
  return endpoint_.reach(job_map, endpoints);
}

void Session::rails_lost(const std::string& lost, const std::string& kept) {
  log_warning(fmt::format("{}; collectives go over {}", lost, kept));
}

void Session::connect(const JobMap& job_map, const std::vector<EndpointInfo>& endpoints) {
  endpoint_.connect(job_map, endpoints);
  tuning_.set_up(job_map, endpoints);
  WireTransport* wire = job_map.hosts() > 1 ? endpoint_.wire() : nullptr;
  engine_ = std::make_unique<Engine>(Fabrics{endpoint_.local(), wire, size_}, waiting(job_map));
  options_.also_needs();
}

Waiting Session::waiting(const JobMap& job_map) const {
  Waiting waiting;
  waiting.host_progress = options_.progress;
  const auto host = job_map.host_of_rank[static_cast<std::size_t>(rank())];
  const bool crowded = job_map.crowded[static_cast<std::size_t>(host)];
  if (crowded) waiting.spins = 0;
  // Being woken costs less than a hundredth of the longer wait. Where ranks outnumber the cores, those that
  // are late are likely to be without one, and each that sleeps must be woken by one that has it: calls of a
  // few microseconds are either quick, or all ranks go on sleeping in each (4 ranks on two cores, up to 64
  // KiB: 5.7 or 8.5 us and more; with sleep after a few yields mostly the latter).
  if (options_.waits_awake) waiting.yields_for = crowded ? 200'000 : 10'000'000;
  return waiting;
}

// ---- communicators and calls ----

std::shared_ptr<PlanStore> Session::plans_of(const std::vector<Rank>& ranks, Rank me) {
  constexpr std::size_t kKept = 64;
  std::lock_guard lock(stores_mutex_);
  for (auto known = stores_.begin(); known != stores_.end(); ++known)
    if ((*known)->members().ranks == ranks) {
      if (known != stores_.begin()) std::rotate(stores_.begin(), known, known + 1);
      return stores_.front();
    }
  Members members{ranks, me, {}, {}};
  std::vector<int> numa_nodes;
  for (Rank rank : ranks) {
    members.hosts.push_back(job_map().host_of_rank[static_cast<std::size_t>(rank)]);
    numa_nodes.push_back(job_map().numa_of_rank[static_cast<std::size_t>(rank)]);
  }
  members.grid = tuning_.grid(members.hosts, numa_nodes);
  stores_.push_front(std::make_shared<PlanStore>(std::move(members), limits_of(job_map())));
  if (stores_.size() > kKept) stores_.pop_back();
  return stores_.front();
}

std::optional<Session::Ended> Session::next_ended() {
  // After a failure another thread may tell of one that has a notice.
  while (auto* call = static_cast<SessionCall*>(engine_->next_done()))
    if (outstanding_.take_over(*call)) return end(*call);
  SessionCall* call = engine_->failed() ? outstanding_.any() : nullptr;
  if (!call) return std::nullopt;
  return end(*call);
}

std::optional<Session::Ended> Session::wait(SessionCall& call, const void* owner) {
  if (!engine_->withdraw_notice(call, [&] { return call.owner == owner; })) return std::nullopt;
  if (!outstanding_.take_over(call)) return std::nullopt;
  engine_->wait(*call.communicator, call);
  return end(call);
}

Session::Ended Session::end(SessionCall& call) {
  try {
    if (!engine_->failed()) bring_back(call.asked, call.staged);
  } catch (const std::exception& error) {
    fail(error.what());
  }
  Ended ended{call.owner, !engine_->failed()};
  outstanding_.give_back(call);
  return ended;
}

void Session::fail(const std::string& why) {
  {
    std::lock_guard lock(failure_mutex_);
    if (failure_.empty()) failure_ = why;
  }
  if (engine_) engine_->fail(why);
}

const std::string& Session::failure() {
  static const std::string kNone;
  std::string engine = engine_ ? engine_->failure() : std::string();
  std::lock_guard lock(failure_mutex_);
  if (failure_.empty()) failure_ = std::move(engine);
  return failure_.empty() ? kNone : failure_;
}

}  // namespace ddl
