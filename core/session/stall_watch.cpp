#include "core/session/stall_watch.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/base/clock.hpp"
#include "core/base/log.hpp"
#include "core/bootstrap/siblings.hpp"

namespace ddl {
namespace {

constexpr Nanoseconds kLookEvery = 250'000'000, kForSilenceEvery = 1'000'000'000;
constexpr Nanoseconds kForAnswers = 1'000'000'000, kForNeighbours = 500'000'000;
// Another rank is to speak: how long it has for that; twice as long where this one does not know why it
// waits.
constexpr Nanoseconds kForAnother = 1'000'000'000;
// Who has slept longer than that was suspended: the others waited for it, and it need not say so.
constexpr Nanoseconds kSuspended = 2'000'000'000;
constexpr Nanoseconds kBetweenRounds = 2'000'000;  // of progress, while answers are awaited
// Of a communicator with more ranks only those whose messages are missing are asked, and those of this host.
constexpr std::size_t kMostAsked = 64;

void add(std::vector<Rank>& ranks, Rank rank) {
  if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) ranks.push_back(rank);
}

std::string text_of(const LongCall& call, std::uint64_t number) {
  const std::string name = call.name.text();
  const std::string ranks = fmt::format("{} ranks", call.members.size());
  if (name.empty()) return fmt::format("{} (call {} of a communicator of {})", call.text, call.seq, ranks);
  return number > 0 ? fmt::format("{} #{} ({}; {})", name, number, call.text, ranks)
                    : fmt::format("{} ({}; call {} of {})", name, call.text, call.seq, ranks);
}

}  // namespace

StallWatch::StallWatch(Nanoseconds first, Rank me, const JobMap& job_map, SilentPeer silent_peer)
    : first_(first),
      lead_(std::min(kForAnswers + kForNeighbours + kLookEvery, first / 4)),
      me_(me),
      job_map_(job_map),
      silent_peer_(std::move(silent_peer)) {}

void StallWatch::begin(Engine* engine, Activity* activity) {
  if (!engine) return;
  engine_ = engine;
  activity_ = activity;
  thread_.start([this] { watch(); });
}

void StallWatch::watch() {
  is_engine_thread() = true;
  ::pthread_setname_np(::pthread_self(), kJoinedThread);
  for (Nanoseconds slept_at = now(); thread_.sleep(kLookEvery); slept_at = now()) {
    if (now() - slept_at > kSuspended) resumed_at_ = now();
    try {
      look();
    } catch (const std::exception&) {
      // No memory for a line.
    }
  }
}

void StallWatch::look() {
  stamp(*activity_, now());
  engine_->look_after();
  const std::vector<LongCall> calls = engine_->calls_longer_than(kLookEvery);
  look_for_the_gone(calls);
  if (!calls.empty()) {
    engine_->show_long_calls();
    look_for_silence();
  }
  if (first_ == 0) return;
  for (auto& [key, said] : said_) said.is_fresh = false;
  const std::vector<CallStatus> mine = statuses_of(*activity_, now());
  look_at_calls(calls, mine);
  look_at_originals(mine);
  std::erase_if(said_, [](const auto& entry) { return !entry.second.is_fresh; });
}

// Between hosts a connection tells. A rank that has ended or failed sends nothing any more.
void StallWatch::look_for_the_gone(const std::vector<LongCall>& calls) {
  for (const LongCall& call : calls)
    for (Rank rank : call.waits_for)
      if (const auto peer = engine_->look_at(rank, 0, 0);
          peer && (peer->presence == Peer::Presence::gone || peer->gave_up))
        return engine_->fail_without(rank, now() - call.began);
}

void StallWatch::look_for_silence() {
  if (now() - looked_for_silence_ < kForSilenceEvery) return;
  looked_for_silence_ = now();
  if (const auto silent = silent_peer_()) engine_->fail_without(silent->first, silent->second);
}

void StallWatch::look_at_calls(const std::vector<LongCall>& calls, const std::vector<CallStatus>& mine) {
  for (const LongCall& call : calls) {
    if (now() - call.began < first_ - lead_) continue;
    Stall stall{me_,          call.comm, call.number, call.name, "", now() - call.began, call.needs_all,
                call.goes_on, call.sink};
    for (const CallStatus& status : mine)
      if (call.number == 0 && !call.goes_on && status.state == CallStatus::State::inside &&
          status.comm == call.comm) {
        stall.number = status.number;
        stall.name = status.name;
      }
    stall.what = text_of(call, stall.number);
    std::vector<Rank> awaited = call.waits_for;
    if (call.source >= 0) awaited.push_back(call.source);
    consider({call.comm, std::uint64_t{call.seq} << 2 | (call.goes_on ? 2 : 0)}, std::move(stall),
             call.members, awaited);
  }
}

// Calls that this rank waits in, and the engine does not know.
void StallWatch::look_at_originals(const std::vector<CallStatus>& mine) {
  for (const CallStatus& status : mine) {
    if (status.state != CallStatus::State::inside || status.age < first_ - lead_) continue;
    const bool is_known = std::any_of(said_.begin(), said_.end(), [&](const auto& entry) {
      return entry.second.is_fresh && entry.first.first == status.comm;
    });
    if (is_known) continue;
    std::string what = status.name.text();
    if (status.comm != 0) what += fmt::format(" #{} of the original library", status.number);
    std::vector<Rank> members = engine_->members_of(status.comm);
    if (status.comm == 0 && status.number > 0)  // of the whole job, such as MPI_Finalize
      for (Rank rank = 0; rank < static_cast<Rank>(job_map_.host_of_rank.size()); ++rank)
        members.push_back(rank);
    Stall stall{me_, status.comm, status.number, status.name, what, status.age, true};
    stall.in_original = status.in_original;
    consider({status.comm, status.number << 2 | 1}, std::move(stall), members, {});
  }
}

void StallWatch::consider(const Key& key, Stall stall, const std::vector<Rank>& members,
                          const std::vector<Rank>& awaited) {
  Said& said = said_[key];
  said.is_fresh = true;
  if (said.next == 0) said.next = first_;
  if (stall.waited < said.next - lead_ || now() - resumed_at_ < kSuspended) return;
  const Nanoseconds began = now() - stall.waited;
  const std::vector<Peer> peers = gather(stall, members, awaited);
  while (now() - began < said.next && thread_.sleep(kBetweenRounds)) engine_->look_after();
  stall.waited = now() - began;
  if (engine_->failed() || !is_still_in(stall)) return;  // the former is said by others
  Stall due = stall;
  due.waited = said.next;
  const Speaker speaker = speaker_of(due, peers);
  const bool knows_why = is_explained(stall, peers);
  if (speaker == Speaker::another || (speaker == Speaker::me && !knows_why)) {
    if (said.left_since == 0) said.left_since = now();
    if (now() - said.left_since < (knows_why ? kForAnother : 2 * kForAnother)) return;
  }
  if (speaker != Speaker::has_spoken) {
    activity_->said.store(SaidOfStall::word(stall.comm, stall.number, said.next), std::memory_order_relaxed);
    log_warning(line_of(stall, peers));
  }
  said.left_since = 0;
  while (said.next <= stall.waited) said.next *= 2;
}

// Gathering takes a while.
bool StallWatch::is_still_in(const Stall& stall) const {
  if (stall.number == 0 || stall.goes_on) return true;
  const std::vector<CallStatus> mine = statuses_of(*activity_, now());
  return std::any_of(mine.begin(), mine.end(), [&](const CallStatus& status) {
    return status.is_in(stall.name, stall.comm, stall.number);
  });
}

std::vector<Peer> StallWatch::gather(const Stall& stall, const std::vector<Rank>& members,
                                     const std::vector<Rank>& awaited) {
  std::vector<Rank> ranks;
  for (Rank rank : awaited) add(ranks, rank);
  auto host_of = [this](Rank rank) { return job_map_.host_of_rank[static_cast<std::size_t>(rank)]; };
  for (Rank rank : members)
    if (members.size() <= kMostAsked || host_of(rank) == host_of(me_)) add(ranks, rank);
  std::erase(ranks, me_);
  std::vector<Peer> peers;
  std::vector<Rank> elsewhere;
  for (Rank rank : ranks) {
    if (std::optional<Peer> peer = engine_->look_at(rank, stall.comm, stall.number))
      peers.push_back(*peer);
    else if (elsewhere.size() < kMostAsked)
      elsewhere.push_back(rank);
  }
  // Of those that nobody can be asked about any more nothing is said.
  if (!engine_->has_wire()) elsewhere.clear();
  ask(elsewhere, stall, peers, false);
  std::erase_if(elsewhere, [&](Rank rank) {
    return std::any_of(peers.begin(), peers.end(), [&](const Peer& peer) { return peer.rank == rank; });
  });
  ask(elsewhere, stall, peers, true);
  if (!engine_->has_wire()) elsewhere.clear();
  for (Rank rank : elsewhere)
    if (std::none_of(peers.begin(), peers.end(), [&](const Peer& peer) { return peer.rank == rank; }))
      peers.push_back({rank, Peer::Presence::silent});
  for (Peer& peer : peers)
    peer.is_awaited = std::find(awaited.begin(), awaited.end(), peer.rank) != awaited.end();
  std::sort(peers.begin(), peers.end(),
            [](const Peer& one, const Peer& other) { return one.rank < other.rank; });
  return peers;
}

// Themselves, or two others of their hosts, and waits for the answers.
void StallWatch::ask(const std::vector<Rank>& ranks, const Stall& stall, std::vector<Peer>& peers,
                     bool of_neighbours) {
  if (ranks.empty()) return;
  engine_->take_answers();  // to questions of before
  for (Rank rank : ranks)
    for (Rank asked : of_neighbours ? neighbours_of(rank) : std::vector<Rank>{rank})
      engine_->ask(asked, rank, stall.comm, stall.number);
  const Nanoseconds end = now() + (of_neighbours ? kForNeighbours : kForAnswers);
  std::size_t missing = ranks.size();
  do {
    engine_->look_after();
    for (Peer& answer : engine_->take_answers()) {
      auto is_it = [&](const Peer& peer) { return peer.rank == answer.rank; };
      const bool was_asked = std::find(ranks.begin(), ranks.end(), answer.rank) != ranks.end();
      if (!was_asked || std::any_of(peers.begin(), peers.end(), is_it)) continue;
      // Who does not answer, and is not known to be stopped or gone, is said not to.
      if (of_neighbours && answer.presence == Peer::Presence::answers)
        answer.presence = Peer::Presence::silent;
      peers.push_back(answer);
      --missing;
    }
  } while (missing > 0 && now() < end && !engine_->failed() && thread_.sleep(kBetweenRounds));
}

std::vector<Rank> StallWatch::neighbours_of(Rank rank) const {
  std::vector<Rank> neighbours;
  for (Rank one : job_map_.ranks_with(rank))
    if (one != rank && neighbours.size() < 2) neighbours.push_back(one);
  return neighbours;
}

}  // namespace ddl
