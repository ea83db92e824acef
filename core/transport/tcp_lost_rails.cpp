// How a rail is found to be lost, what is done with what it carried, and how it is taken back.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "core/base/clock.hpp"
#include "core/base/log.hpp"
#include "core/net/descriptors.hpp"
#include "core/transport/tcp_impl.hpp"

namespace ddl {
namespace {

constexpr Nanoseconds kInspectEvery = 500'000'000, kSampleEvery = 50'000'000;
constexpr Nanoseconds kSlowFor = 2'000'000'000;  // that long, or a little more, before a rail is called slow
constexpr std::size_t kMostSampled = 64;         // peers
// Unanswered tries in a row, each twice as late as the one before, from 0.2 s: 3 s, or 6 s where no other
// rail is left.
constexpr int kTries = 4, kLastTries = 5;
// Of a rail that is taken back: 3 s, too.
constexpr int kTriesToConnect = 2;
// Who gives up a rail ends its connections and says so over another, where the word comes a little later.
// Where there is no other it opens one, if it lives.
constexpr Nanoseconds kWordComes = 1'000'000'000, kLastWordComes = 200'000'000;
// Before what was lost is tried again. A slow rail takes connections.
constexpr Nanoseconds kPause = 2'000'000'000, kPauseOfSlow = 60'000'000'000;

Carried carried_by(const OutStream& stream) {
  return Carried::by_stream(stream.acknowledged(), stream.backlog(), stream.socket().waited_for_reader());
}

}  // namespace

void TcpTransport::Impl::check_suspects() {
  for (auto [rail, to] : std::exchange(suspects, {}))
    if (out(rail, to)) check(rail, to, true);
}

// A peer that closes its end says so first; it has failed all the same when there is something to send.
void TcpTransport::Impl::check(std::size_t rail, Rank to, bool had_to_send) {
  const OutStream& stream = *out(rail, to);
  if (stream.state() == StreamState::open) return;
  const bool has_left = stream.state() == StreamState::left;
  if (has_left && !had_to_send) return;
  const Reason why{
      fmt::format("connection over {}: {}", rails[rail].interface, has_left ? "it has left" : stream.why()),
      Loss::of_a_peer, LostRails::Kind::broken, stream.is_silent()};
  if (!has_left && rails.size() > 1)
    give_up(rail, to, why);
  else
    fail(to, why);
}

// A peer that has gone has closed all its connections.
bool TcpTransport::Impl::is_heard(Rank from) const {
  return std::any_of(ins.begin(), ins.end(), [&](const auto& in) { return in && in->from() == from; });
}

// The last rail to a peer that has gone breaks in this direction, too, if there is a connection.
void TcpTransport::Impl::check_broken_ins() {
  const Nanoseconds when = now();
  std::vector<BrokenIn> due;
  std::erase_if(broken_ins, [&](BrokenIn& one) {
    if (when - one.since < (is_heard(one.stream.from) ? kWordComes : kLastWordComes)) return false;
    due.push_back(std::move(one));
    return true;
  });
  for (const auto& [stream, why, _] : due) {
    give_up(stream.rail, stream.from, why);
    if (!lost_rails.is_lost(stream.from, stream.rail)) connect(stream.rail, stream.from);
  }
}

// Whatever may not have come there goes another way; the peer hears of it even if there is nothing. Where no
// rail is left, or nobody answers on it, the peer has failed. Who says that it has lost a rail lives.
void TcpTransport::Impl::give_up(std::size_t rail, Rank to, const Reason& why) {
  const std::uint32_t epoch = lost_rails.times(to, rail);
  const Nanoseconds pause = why.loss == Loss::of_speed ? kPauseOfSlow : kPause;
  if (!lost_rails.lose(to, rail, why.kind, now(), pause)) return;
  while (std::optional<std::size_t> carrier = lost_rails.carrier(to, rail)) {
    if (*carrier == rail) return;  // those that came first have just broken
    OutStream* next = connect(*carrier, to);
    if (!next) continue;  // that one is lost, too
    if (OutStream* old = out(rail, to))
      next->take_over(*old, rail, why.loss);
    else
      next->say_lost(rail, epoch, why.loss);
    end_stream(rail, to);
    std::vector<Rank>& gathering = rails[*carrier].gathering;
    if (std::find(gathering.begin(), gathering.end(), to) == gathering.end()) gathering.push_back(to);
    if (!why.is_told) {
      const std::string whom = why.loss == Loss::of_a_peer ? fmt::format(", rank {}", to) : "";
      notes.push_back({rail, now(),
                       fmt::format("rail {} is lost ({}{}); what it carried goes over {}",
                                   rails[rail].interface, why.text, whom, rails[*carrier].interface)});
    }
    if (next->state() != StreamState::open) suspects.emplace_back(*carrier, to);
    return;
  }
  fail(to, why);
}

// ---- what its writer has lost ----

// What came there before is taken first.
void TcpTransport::Impl::lost(const LostStream& stream, Loss loss) {
  if (stream.rail >= rails.size()) return;
  std::erase_if(broken_ins, [&](const BrokenIn& one) { return one.stream == stream; });
  accept_all(stream.rail);
  bool is_used_again = false;  // the word may come late
  for (std::size_t i = 0; i < ins.size(); ++i) {
    InStream* in = ins[i].get();
    if (!in || in->rail() != stream.rail) continue;
    is_used_again |= in->from() == stream.from && in->epoch() > stream.epoch;
    auto is_it = [&] { return in->from() == stream.from && in->epoch() <= stream.epoch; };
    if (in->is_reading() || !(in->from() < 0 || is_it())) continue;
    while (in->receive(hello_of(stream.rail), pool, *handler, *this)) continue;
    if (!is_it()) continue;
    ended_ins.add({stream.from, stream.rail, in->epoch()}, in->next_frame());
    in->abandon(*handler);
    remove_in(i);
  }
  ended_ins.add(stream, 1);
  if (!is_used_again) lost_ins.insert({stream.from, stream.rail});
  const Reason why{"the other end has lost it", loss, LostRails::Kind::avoided, false, true};
  if (loss == Loss::of_a_peer)
    give_up(stream.rail, stream.from, why);
  else
    give_up_all(stream.rail, why);
}

// ---- what makes no event ----

// A peer's machine that has gone, a link without carrier, a rail that has become slow.
void TcpTransport::Impl::inspect(Nanoseconds when) {
  const Nanoseconds passed = when - inspected;
  if (passed < kInspectEvery) return;
  const bool is_first = inspected == 0;
  inspected += passed;
  while (make_room(static_cast<Nanoseconds>(kStrangersTime_s * 1e9))) continue;
  if (is_first) return;
  if (rails.size() > 1) inspect_links();
  for (std::size_t rail = 0; rail < rails.size(); ++rail)
    for (Rank to : std::vector<Rank>(rails[rail].used)) {
      OutStream* stream = out(rail, to);
      if (!stream || stream->state() != StreamState::open || lost_rails.is_lost(to, rail)) continue;
      const bool is_taken_back = !stream->has_begun() && lost_rails.times(to, rail) > 0;
      const int patience = lost_rails.is_last_resort(to, rail) ? kLastTries : kTries;
      stream->listen_for_silence(is_taken_back ? kTriesToConnect : patience);
      // At once: another that has been silent as long may be the last now.
      if (stream->state() != StreamState::open) check(rail, to, true);
    }
  check_suspects();
  if (rails.size() == 1) return;
  for (std::size_t rail = 0; rail < rails.size(); ++rail)
    for (Rank to : std::vector<Rank>(rails[rail].used)) inspect_pace(rail, to, passed);
  conclude();
  try_again();
  say_notes(when - kInspectEvery);
}

SlowRails::Load TcpTransport::Impl::load_of(std::size_t rail) const {
  SlowRails::Load load;
  load.is_whole = !lost_rails.any_on(rail) && std::none_of(lost_ins.begin(), lost_ins.end(),
                                                           [&](const auto& in) { return in.second == rail; });
  for (std::size_t i = 0; i < std::min(rails[rail].used.size(), kMostSampled); ++i) {
    const Rank to = rails[rail].used[i];
    const OutStream& stream = *out(rail, to);
    if (stream.state() != StreamState::open || lost_rails.is_lost(to, rail)) continue;
    load.is_usable = true;
    load.add(carried_by(stream));
  }
  return load;
}

void TcpTransport::Impl::sample(Nanoseconds when) {
  if (rails.size() == 1 || when - sampled < kSampleEvery) return;
  sampled = when;
  std::vector<SlowRails::Load> loads;
  for (std::size_t rail = 0; rail < rails.size(); ++rail) loads.push_back(load_of(rail));
  slow_rails.sample(loads);
}

void TcpTransport::Impl::conclude() {
  const Nanoseconds passed = now() - concluded;
  if (passed < kSlowFor) return;
  concluded += passed;
  for (const auto& [rail, bytes] : slow_rails.conclude(passed)) {
    const double rate = static_cast<double>(bytes) * 1e3 / static_cast<double>(passed);
    give_up_all(rail, {fmt::format("{:.3g} MB/s, another is three times as fast", rate), Loss::of_speed,
                       LostRails::Kind::avoided});
  }
}

// A link may come back: on the last way to a peer it is silence that counts, as where there is one rail
// alone.
void TcpTransport::Impl::inspect_links() {
  for (std::size_t rail = 0; rail < rails.size(); ++rail) {
    if (is_running(rails[rail].interface)) continue;
    for (Rank to : peers_in_use())
      if (!lost_rails.is_last_resort(to, rail)) give_up(rail, to, {"its link is down"});
  }
}

std::set<Rank> TcpTransport::Impl::peers_in_use() const {
  std::set<Rank> peers;
  for (const Rail& one : rails) peers.insert(one.used.begin(), one.used.end());
  return peers;
}

void TcpTransport::Impl::give_up_all(std::size_t rail, const Reason& why) {
  for (Rank to : peers_in_use()) give_up(rail, to, why);
}

// What goes around a ring waits for its slowest link, so a slow rail is given up by all.
void TcpTransport::Impl::inspect_pace(std::size_t rail, Rank to, Nanoseconds passed) {
  OutStream* stream = out(rail, to);
  if (!stream || stream->state() != StreamState::open || lost_rails.is_lost(to, rail)) return;
  bool is_other_free = false;
  for (std::size_t other = 0; other < rails.size(); ++other)
    if (other != rail && !lost_rails.is_lost(to, other))
      is_other_free |= !out(other, to) || out(other, to)->backlog() == 0;
  const std::optional<double> rate = paces[{rail, to}].inspect({carried_by(*stream), is_other_free}, passed);
  if (!rate) return;
  if (*rate > 0)
    return give_up_all(
        rail, {fmt::format("{:.2f} MB/s to rank {}, while another has nothing to do", *rate * 1e-6, to),
               Loss::of_speed, LostRails::Kind::avoided});
  Reason why{fmt::format("rank {} acknowledges nothing", to), Loss::of_several};
  give_up(rail, to, why);
  why.kind = LostRails::Kind::avoided;
  give_up_all(rail, why);
}

// By a connection that carries nothing until it stands.
void TcpTransport::Impl::try_again() {
  if (!lost_rails.any()) return;
  for (auto [to, rail] : lost_rails.due(now())) {
    end_stream(rail, to);
    if (is_running(rails[rail].interface)) begin_stream(rail, to);
  }
}

void TcpTransport::Impl::say_notes(Nanoseconds before) {
  while (!notes.empty() && notes.front().since <= before) {
    const Note note = std::move(notes.front());
    notes.erase(notes.begin());
    if (!std::exchange(rails[note.rail].is_said_lost, true)) log_warning(note.text);
  }
}

}  // namespace ddl
