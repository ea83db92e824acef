#include "core/session/standalone_job.hpp"

#include <fmt/format.h>

#include <atomic>
#include <span>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/bootstrap/pmix_job.hpp"
#include "core/bootstrap/rendezvous_exchange.hpp"
#include "core/net/resolve.hpp"

namespace ddl {
namespace {

// Jobs that this process has been in: a rank that is through with one may be at the next before rank 0 has
// left.
std::atomic<std::uint32_t> joined{0};

RendezvousLimits limits_of(const Env& env) { return {env.timeout_s, env.timeout_s}; }

RendezvousId id_of(const JobPlace& place) {
  std::vector<IpAddress> addresses;
  for (const std::string& text : resolve(place.address)) addresses.push_back(parse_address(text));
  RendezvousId id = RendezvousId::make(place.port, addresses);
  id.token = place.token;
  return id;
}

Membership join_rendezvous(const JobAsked& asked, const Env& env) {
  Membership mine;
  auto join = [&](const RendezvousId& id, Rank rank, Rank size) {
    mine.rendezvous = std::make_shared<RendezvousClient>(id, rank, size, env.timeout_s);
    return std::move(mine);
  };
  std::unique_ptr<PmixJob> pmix = asked.is_silent() ? PmixJob::open(env.timeout_s) : nullptr;
  if (pmix) {
    std::span<const std::byte> id;
    if (pmix->rank() == 0) {
      mine.server = std::make_unique<RendezvousServer>(limits_of(env), wanted_rails(env));
      id = mine.server->id().bytes();
    }
    return join(id_from(pmix->from_rank_0(id)), pmix->rank(), pmix->size());
  }
  const JobPlace place =
      place_of(asked, env.port, joined, [](const char* name) { return foreign_env(name); });
  if (place.rank != 0) try {
      return join(id_of(place), place.rank, place.size);
    } catch (const std::exception& error) {
      throw Error(
          fmt::format("rank 0 is not met at {}, port {}: {}", place.address, place.port, error.what()));
    }
  const RendezvousPort at = place.size > 1 ? RendezvousPort{place.port, place.token} : RendezvousPort{};
  mine.server = std::make_unique<RendezvousServer>(limits_of(env), wanted_rails(env), at);
  return join(mine.server->id(), place.rank, place.size);
}

}  // namespace

RendezvousId id_from(std::span<const std::byte> bytes) {
  std::optional<RendezvousId> id;
  if (bytes.size() == RendezvousId::kBytes) id = RendezvousId::from(bytes.first<RendezvousId::kBytes>());
  if (!id) throw Error("rank 0 runs another version of the engine");
  return *id;
}

StandaloneJob::StandaloneJob(const JobAsked& asked, Env env)
    : StandaloneJob(join_rendezvous(asked, env), env) {
  ++joined;
}

StandaloneJob::StandaloneJob(Membership membership, Env env, StandaloneOptions options)
    : options_(std::move(options)),
      membership_(std::move(membership)),
      watch_(membership_.rendezvous),
      session_(start_at(membership_.rendezvous), session_options(std::move(env))) {
  const Conclusion& conclusion = session_.join();
  if (conclusion.joined) return;
  std::string who = conclusion.of_rank < 0 ? "" : "rank " + std::to_string(conclusion.of_rank) + ": ";
  throw Error(who + conclusion.reason, "a job needs all its ranks");
}

SessionOptions StandaloneJob::session_options(Env env) {
  SessionOptions options;
  options.env = std::move(env);
  options.has_original = false;
  options.speaks_for_process = options_.speaks_for_process;
  options.waits_awake = options_.waits_awake;
  options.keeps_report = options_.keeps_report;
  options.progress = [this] {
    std::string why = watch_.overdue();
    if (why.empty()) why = options_.overdue();
    if (!why.empty()) session_.fail(why);
  };
  return options;
}

void StandaloneJob::leave() {
  std::string mine = session_.wants_report() ? session_.report_part() : std::string();
  std::vector<std::string> parts;
  for (const auto& part : watch_.exchange(std::as_bytes(std::span(mine))))
    parts.emplace_back(reinterpret_cast<const char*>(part.data()), part.size());
  if (session_.wants_report() && session_.rank() == 0) session_.write_report(parts);
}

}  // namespace ddl
