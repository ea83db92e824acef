#include "core/transport/tcp.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <utility>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/net/strangers.hpp"
#include "core/net/wait.hpp"
#include "core/transport/lost_rails.hpp"
#include "core/transport/slow_rails.hpp"
#include "core/transport/tcp_stream.hpp"

namespace ddl {
namespace {

// What an event is about: the kind in the upper half, an index in the lower.
enum class Kind : std::uint32_t { listener, out, in };

constexpr int kLooks = 64;  // between two at the clock
constexpr Nanoseconds kInspectEvery = 500'000'000, kSampleEvery = 50'000'000;
constexpr Nanoseconds kSlowFor = 2'000'000'000;  // that long, or a little more, before a rail is called slow
constexpr std::size_t kMostSampled = 64;         // peers
// Unanswered tries in a row, each twice as late as the one before, from 0.2 s: 3 s, or 6 s where no other
// rail is left.
constexpr int kTries = 4, kLastTries = 5;
// A rail that needs longer than that for what waits, while another one has nothing to do, is given up; and
// how often in a row it is found so.
constexpr double kTooSlow_s = 2;
constexpr int kTooSlow = 2;
// Before a failure is told: the peer may have ended because of another, and may be about to say so; or the
// launcher ends all ranks, of which this one is not the last.
constexpr Nanoseconds kGrace = 300'000'000;
// Where a machine is silent the launcher finds that out, too, and ends the job better than a rank can.
constexpr Nanoseconds kGraceOfSilence = 3'000'000'000;
// A stranger that one of us may be has had that long to say hello.
constexpr Nanoseconds kStrangersLeast = 100'000'000;
// Before what was lost is tried again. A slow rail takes connections.
constexpr Nanoseconds kPause = 2'000'000'000, kPauseOfSlow = 60'000'000'000;

std::uint64_t key_of(Kind kind, std::size_t index) { return static_cast<std::uint64_t>(kind) << 32 | index; }

std::uint64_t random_token() {
  std::random_device random;
  return random() | std::uint64_t{random()} << 32;
}

// As it travels in the endpoint info of a rank; all ranks run the same build.
struct PackedAddress {
  std::uint64_t token;
  Endpoint endpoint;
};

Error unusable(const std::string& problem) {
  return Error(problem, "ranks of different hosts exchange data through it",
               "name another one with DDL_RAILS");
}

}  // namespace

Socket listen_on(const TcpRail& rail, Endpoint& local) {
  local = {parse_address(rail.address)};
  if (local.address.family == 0)
    throw unusable(fmt::format("interface {} has no usable address ('{}')", rail.interface, rail.address));
  Socket socket = listen_on(local);
  if (!socket.is_open())
    throw unusable(fmt::format("cannot listen on {} of interface {}: {}", rail.address, rail.interface,
                               std::strerror(errno)));
  return socket;
}

struct TcpTransport::Impl : LostStreams {
  struct Rail {
    std::string interface;
    Endpoint local;
    std::uint64_t token = 0;
    Socket listener;
    std::vector<std::unique_ptr<OutStream>> outs;  // by rank in the job
    std::vector<Rank> used;                        // those of outs that exist
    Bytes sent = 0;
    std::vector<Rank> gathering;  // those of used that have had messages since the last push
    bool is_said_lost = false;
  };
  struct Pace {
    Bytes acknowledged = 0;
    Nanoseconds waited_for_reader = 0;
    int slow = 0;
  };
  // Why a rail is lost, or a peer has failed.
  struct Reason {
    std::string text;
    Loss loss = Loss::of_a_peer;
    bool is_silence = false;  // nobody answers
    bool is_told = false;     // by another rank, which says it
  };
  // What is to be said of a rail, unless it turns out that the peer is gone.
  struct Note {
    std::size_t lane;
    Nanoseconds since;
    std::string text;
  };

  Rank me = 0;
  Rank ranks = 0;
  ReceivePool pool;
  std::vector<Rail> rails;  // after set_lanes(): by lane
  std::vector<std::vector<WireAddress>> addresses;
  std::vector<std::unique_ptr<InStream>> ins;
  struct Stranger {
    InStream* in;
    Nanoseconds since;
  };
  std::deque<Stranger> strangers;  // those of `ins` that have not said hello, the oldest first
  struct Failure {
    Rank peer;
    std::string why;
    Nanoseconds due;  // to be told
    Nanoseconds since;
  };
  std::vector<Failure> failures;
  EventSet events;
  bool said_stranger = false;
  int looks = 0;
  Nanoseconds inspected = 0;

  // Where there are several rails.
  LostRails lost_rails{0};
  std::map<LostStream, std::uint64_t> next_of;  // of streams that were lost: the number of the next frame
  std::vector<std::pair<std::size_t, Rank>> suspects;  // streams that may be broken
  struct BrokenIn {
    std::size_t lane;
    Rank from;
    Reason why;
  };
  std::vector<BrokenIn> broken_ins;
  std::map<std::pair<std::size_t, Rank>, Pace> paces;
  SlowRails slow_rails;
  Nanoseconds sampled = 0, concluded = 0;
  std::vector<Note> notes;
  MessageHandler* handler = nullptr;  // while progress() is at work

  void open_rail(const TcpRail& wanted);
  OutStream* connect(std::size_t lane, Rank to);
  OutStream* stream_for(std::size_t& lane, Rank to);
  OutStream* begin_stream(std::size_t lane, Rank to);
  void end_stream(std::size_t lane, Rank to);
  void fail(Rank peer, const Reason& why);
  void tell_failures();
  void accept_all(std::size_t lane);
  bool is_peer(std::size_t lane, const IpAddress& remote) const;
  bool make_room(Nanoseconds least);
  void refuse(std::size_t lane, const std::string& why);
  void remove_in(std::size_t index);
  Hello hello_of(std::size_t lane) const {
    return {Hello::kMagic, rails[lane].token, static_cast<std::uint32_t>(ranks), 0};
  }
  void check(std::size_t lane, Rank to, bool had_to_send);
  void check_suspects();
  void give_up(std::size_t lane, Rank to, const Reason& why);
  void give_up_all(std::size_t lane, const Reason& why);
  bool on_out(std::size_t index);
  bool on_in(std::size_t index);
  void inspect();
  void sample();
  SlowRails::Load load_of(std::size_t lane) const;
  void conclude();
  void inspect_links();
  void inspect_pace(std::size_t lane, Rank to, Nanoseconds passed);
  void try_again();
  void say_notes(Nanoseconds before);

  void lost(const LostStream& stream, Loss loss) override;
  bool lacks(const LostStream& stream, std::uint64_t frame) const override;
  void gone(Rank says, Rank who) override;
  bool is_over(const LostStream& stream) const override { return next_of.contains(stream); }
  void took(const LostStream& stream, std::uint64_t frame) override;
  OutStream* out(std::size_t lane, Rank to) const {
    return rails[lane].outs[static_cast<std::size_t>(to)].get();
  }
};

void TcpTransport::Impl::open_rail(const TcpRail& wanted) {
  Rail rail;
  rail.interface = wanted.interface;
  rail.token = random_token();
  rail.listener = listen_on(wanted, rail.local);
  rails.push_back(std::move(rail));
}

TcpTransport::TcpTransport(const std::vector<TcpRail>& rails, Rank me) : impl_(std::make_unique<Impl>()) {
  impl_->me = me;
  for (const TcpRail& rail : rails) impl_->open_rail(rail);
}

TcpTransport::~TcpTransport() { close(); }

WireAddress TcpTransport::address(std::size_t rail) const {
  PackedAddress packed{impl_->rails[rail].token, impl_->rails[rail].local};
  WireAddress bytes(sizeof(packed));
  std::memcpy(bytes.data(), &packed, sizeof(packed));
  return bytes;
}

void TcpTransport::set_lanes(const std::vector<std::size_t>& rail_of_lane,
                             std::vector<std::vector<WireAddress>> addresses) {
  std::vector<Impl::Rail> lanes;
  for (std::size_t rail : rail_of_lane) lanes.push_back(std::move(impl_->rails[rail]));
  impl_->rails = std::move(lanes);
  impl_->addresses = std::move(addresses);
  impl_->ranks = static_cast<Rank>(impl_->addresses.size());
  impl_->lost_rails = LostRails(impl_->rails.size());
  for (std::size_t lane = 0; lane < impl_->rails.size(); ++lane) {
    impl_->rails[lane].outs.resize(impl_->addresses.size());
    impl_->events.watch(impl_->rails[lane].listener, EPOLLIN, key_of(Kind::listener, lane));
  }
}

OutStream* TcpTransport::Impl::connect(std::size_t lane, Rank to) {
  if (OutStream* known = out(lane, to)) return known;
  OutStream* made = begin_stream(lane, to);
  if (made) return made;
  const Reason why{fmt::format("cannot connect over {}: {}", rails[lane].interface, std::strerror(errno))};
  if (rails.size() > 1)
    give_up(lane, to, why);
  else
    fail(to, why);
  return nullptr;
}

// Edge-triggered: the kernel reports room in a socket only after it had none, so a connection that keeps up
// costs no event. Null where it cannot even begin; errno says why.
OutStream* TcpTransport::Impl::begin_stream(std::size_t lane, Rank to) {
  Rail& rail = rails[lane];
  auto& out = rail.outs[static_cast<std::size_t>(to)];
  PackedAddress remote{};
  const WireAddress& bytes = addresses[static_cast<std::size_t>(to)][lane];
  if (bytes.size() == sizeof(remote)) std::memcpy(&remote, bytes.data(), sizeof(remote));
  Socket socket = start_connecting(remote.endpoint, rail.local.address);
  if (!socket.is_open()) return nullptr;
  out = std::make_unique<OutStream>(
      std::move(socket),
      Hello{Hello::kMagic, remote.token, static_cast<std::uint32_t>(me), lost_rails.times(to, lane)},
      rails.size() > 1 ? Keeps::unacknowledged : Keeps::nothing);
  rail.used.push_back(to);
  rail.gathering.push_back(to);  // its hello
  events.watch(out->socket(), EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
               key_of(Kind::out, lane * static_cast<std::size_t>(ranks) + static_cast<std::size_t>(to)));
  return out.get();
}

void TcpTransport::Impl::end_stream(std::size_t lane, Rank to) {
  Rail& rail = rails[lane];
  auto& out = rail.outs[static_cast<std::size_t>(to)];
  if (!out) return;
  out->hang_up();
  out.reset();
  std::erase(rail.used, to);
  std::erase(rail.gathering, to);
  paces.erase({lane, to});
}

// Null where none is left, or the only one cannot even begin.
OutStream* TcpTransport::Impl::stream_for(std::size_t& lane, Rank to) {
  if (rails.size() == 1) return connect(lane, to);
  while (std::optional<std::size_t> carrier = lost_rails.carrier(to, lane))
    if (OutStream* stream = connect(*carrier, to)) return lane = *carrier, stream;
  return nullptr;
}

bool TcpTransport::send(const Outgoing& message) {
  for (Rank to : message.to) {
    std::size_t lane = message.rail;
    OutStream* out = impl_->stream_for(lane, to);
    if (!out) continue;  // reported as a failed peer by the next progress()
    Impl::Rail& rail = impl_->rails[lane];
    if (!out->is_gathering()) rail.gathering.push_back(to);
    out->send(message.header, message.payload, *message.unfinished);
    rail.sent += sizeof(Header) + message.payload.size();
    if (out->state() != StreamState::open) impl_->check(lane, to, true);
  }
  return true;
}

void TcpTransport::give_up(std::size_t lane, const std::string& why) { impl_->give_up_all(lane, {why}); }

bool TcpTransport::push(Bytes at_least) {
  bool moved = false;
  for (std::size_t lane = 0; lane < impl_->rails.size(); ++lane) {
    Impl::Rail& rail = impl_->rails[lane];
    std::erase_if(rail.gathering, [&](Rank to) {
      OutStream& out = *rail.outs[static_cast<std::size_t>(to)];
      if (out.state() != StreamState::open) return true;  // that has been said
      moved |= out.push(at_least);
      if (out.state() != StreamState::open) impl_->suspects.emplace_back(lane, to);
      return !out.is_gathering();
    });
  }
  if (!impl_->suspects.empty()) impl_->check_suspects();
  return moved;
}

// A stream of a rail that is tried again has nothing to flush but its hello.
void TcpTransport::flush(std::uint32_t& unfinished) {
  for (std::size_t lane = 0; lane < impl_->rails.size(); ++lane)
    for (Rank to : impl_->rails[lane].used)
      if (!impl_->lost_rails.is_lost(to, lane)) impl_->out(lane, to)->flush(unfinished);
}

void TcpTransport::Impl::check_suspects() {
  for (auto [lane, to] : std::exchange(suspects, {}))
    if (out(lane, to)) check(lane, to, true);
}

// A peer that closes its end says so first; it has failed all the same when there is something to send.
void TcpTransport::Impl::check(std::size_t lane, Rank to, bool had_to_send) {
  const OutStream& stream = *out(lane, to);
  if (stream.state() == StreamState::open) return;
  const bool has_left = stream.state() == StreamState::left;
  if (has_left && !had_to_send) return;
  const Reason why{
      fmt::format("connection over {}: {}", rails[lane].interface, has_left ? "it has left" : stream.why()),
      Loss::of_a_peer, stream.is_silent()};
  if (!has_left && rails.size() > 1)
    give_up(lane, to, why);
  else
    fail(to, why);
}

// Whatever may not have come there goes another way; the peer hears of it even if there is nothing. Where no
// rail is left, or nobody answers on it, the peer has failed.
void TcpTransport::Impl::give_up(std::size_t lane, Rank to, const Reason& why) {
  const std::uint32_t epoch = lost_rails.times(to, lane);
  if (!lost_rails.lose(to, lane, now(), why.loss == Loss::of_speed ? kPauseOfSlow : kPause)) return;
  while (std::optional<std::size_t> carrier = lost_rails.carrier(to, lane)) {
    OutStream* next = connect(*carrier, to);
    if (!next) continue;  // that one is lost, too
    if (OutStream* old = out(lane, to))
      next->take_over(*old, lane, epoch, why.loss);
    else
      next->say_lost(lane, epoch, why.loss);
    end_stream(lane, to);
    std::vector<Rank>& gathering = rails[*carrier].gathering;
    if (std::find(gathering.begin(), gathering.end(), to) == gathering.end()) gathering.push_back(to);
    if (!why.is_told) {
      const std::string whom = why.loss == Loss::of_a_peer ? fmt::format(", rank {}", to) : "";
      notes.push_back({lane, now(),
                       fmt::format("rail {} is lost ({}{}); what it carried goes over {}",
                                   rails[lane].interface, why.text, whom, rails[*carrier].interface)});
    }
    if (next->state() != StreamState::open) suspects.emplace_back(*carrier, to);
    return;
  }
  fail(to, why);
}

// ---- what its writer has lost ----

// What came there before is taken first.
void TcpTransport::Impl::lost(const LostStream& stream, Loss loss) {
  if (stream.lane >= rails.size()) return;
  accept_all(stream.lane);
  for (std::size_t i = 0; i < ins.size(); ++i) {
    InStream* in = ins[i].get();
    auto is_it = [&] { return in->from() == stream.from && in->epoch() <= stream.epoch; };
    if (!in || in->is_reading() || in->rail() != stream.lane || !(in->from() < 0 || is_it())) continue;
    while (in->receive(hello_of(stream.lane), pool, *handler, *this)) continue;
    if (!is_it()) continue;
    next_of[{stream.from, stream.lane, in->epoch()}] = in->next_frame();
    in->abandon(*handler);
    remove_in(i);
  }
  next_of.try_emplace(stream, 1);
  const Reason why{"the other end has lost it", loss, false, true};
  if (loss == Loss::of_a_peer)
    give_up(stream.lane, stream.from, why);
  else
    give_up_all(stream.lane, why);
}

bool TcpTransport::Impl::lacks(const LostStream& stream, std::uint64_t frame) const {
  auto known = next_of.find(stream);
  return known == next_of.end() || frame >= known->second;
}

void TcpTransport::Impl::took(const LostStream& stream, std::uint64_t frame) {
  std::uint64_t& next = next_of[stream];
  next = std::max(next, frame + 1);
}

// Ranks of other hosts connect from the addresses of their rails.
bool TcpTransport::Impl::is_peer(std::size_t lane, const IpAddress& remote) const {
  for (Rank rank = 0; rank < ranks; ++rank) {
    PackedAddress known{};
    const WireAddress& bytes = addresses[static_cast<std::size_t>(rank)][lane];
    if (rank == me || bytes.size() != sizeof(known)) continue;
    std::memcpy(&known, bytes.data(), sizeof(known));
    if (known.endpoint.address == remote) return true;
  }
  return false;
}

void TcpTransport::Impl::accept_all(std::size_t lane) {
  while (strangers.size() < kMostStrangers || make_room(kStrangersLeast)) {
    Socket socket = accept_from(rails[lane].listener);
    if (!socket.is_open()) {
      const bool is_full = errno == EMFILE || errno == ENFILE;
      if (is_full && make_room(kStrangersLeast)) continue;
      if (is_full) refuse(lane, fmt::format("none can be accepted for the moment: {}", std::strerror(errno)));
      return;
    }
    keep_descriptors_free(socket.fd());
    if (!is_peer(lane, socket.remote())) {
      refuse(lane, "it comes from another machine");
      continue;
    }
    std::size_t index = 0;
    while (index < ins.size() && ins[index]) ++index;
    if (index == ins.size()) ins.emplace_back();
    ins[index] = std::make_unique<InStream>(std::move(socket), lane);
    strangers.push_back({ins[index].get(), now()});
    events.watch(ins[index]->socket(), EPOLLIN | EPOLLRDHUP, key_of(Kind::in, index));
  }
}

// The oldest that has not said hello for so long goes; false when there is none. One that is being read is
// about to be known.
bool TcpTransport::Impl::make_room(Nanoseconds least) {
  if (strangers.empty() || now() - strangers.front().since < least) return false;
  InStream* oldest = strangers.front().in;
  if (oldest->is_reading()) return false;
  std::size_t index = 0;
  while (ins[index].get() != oldest) ++index;
  on_in(index);  // it may just have done so
  if (strangers.empty() || strangers.front().in != oldest) return true;
  refuse(oldest->rail(), "it does not say who it is");
  remove_in(index);
  return true;
}

void TcpTransport::Impl::refuse(std::size_t lane, const std::string& why) {
  if (!std::exchange(said_stranger, true))
    log_warning(fmt::format("a connection over {} that does not belong to this job was refused ({})",
                            rails[lane].interface, why));
}

void TcpTransport::Impl::remove_in(std::size_t index) {
  std::erase_if(strangers, [&](const Stranger& one) { return one.in == ins[index].get(); });
  ins[index].reset();
}

bool TcpTransport::Impl::on_out(std::size_t index) {
  std::size_t lane = index / static_cast<std::size_t>(ranks);
  auto to = static_cast<Rank>(index % static_cast<std::size_t>(ranks));
  OutStream* stream = out(lane, to);
  if (!stream || stream->state() != StreamState::open) return false;
  bool moved = stream->wake();
  if (!lost_rails.is_lost(to, lane)) {
    check(lane, to, !stream->idle());
  } else if (stream->state() != StreamState::open) {  // it does not carry yet
    end_stream(lane, to);
  } else if (stream->idle()) {  // it has said hello
    lost_rails.regain(to, lane);
    if (std::exchange(rails[lane].is_said_lost, false))
      log_warning(fmt::format("rail {} carries again (rank {})", rails[lane].interface, to));
  }
  return moved;
}

bool TcpTransport::Impl::on_in(std::size_t index) {
  if (index >= ins.size() || !ins[index]) return false;
  InStream& in = *ins[index];
  const std::size_t lane = in.rail();
  bool moved = in.receive(hello_of(lane), pool, *handler, *this);
  if (in.from() >= 0 && !strangers.empty())
    std::erase_if(strangers, [&](const Stranger& one) { return one.in == &in; });
  if (in.state() == StreamState::open) return moved;
  const Reason why{fmt::format("connection over {}: {}", rails[lane].interface, in.why()), Loss::of_a_peer,
                   in.is_silent()};
  const Rank from = in.from();
  if (in.state() == StreamState::broken && from >= 0) {
    if (rails.size() > 1) {
      next_of[{from, lane, in.epoch()}] = in.next_frame();
      in.abandon(*handler);
      broken_ins.push_back({lane, from, why});
    } else {
      fail(from, why);
    }
  }
  if (from < 0) refuse(lane, in.why());
  remove_in(index);
  return moved;
}

// ---- what makes no event ----

// A peer's machine that has gone, a link without carrier, a rail that has become slow.
void TcpTransport::Impl::inspect() {
  const Nanoseconds passed = now() - inspected;
  if (passed < kInspectEvery) return;
  const bool is_first = inspected == 0;
  inspected += passed;
  while (make_room(static_cast<Nanoseconds>(kStrangersTime_s * 1e9))) continue;
  if (is_first) return;
  if (rails.size() > 1) inspect_links();
  for (std::size_t lane = 0; lane < rails.size(); ++lane)
    for (Rank to : rails[lane].used) {
      OutStream& stream = *out(lane, to);
      if (stream.state() != StreamState::open || lost_rails.is_lost(to, lane)) continue;
      const bool is_last = lost_rails.carrier(to, lane + 1) == lane;
      stream.listen_for_silence(is_last ? kLastTries : kTries);
      if (stream.state() != StreamState::open) suspects.emplace_back(lane, to);
    }
  check_suspects();
  if (rails.size() == 1) return;
  for (std::size_t lane = 0; lane < rails.size(); ++lane)
    for (Rank to : std::vector<Rank>(rails[lane].used)) inspect_pace(lane, to, passed);
  conclude();
  try_again();
  say_notes(now() - kInspectEvery);
}

SlowRails::Load TcpTransport::Impl::load_of(std::size_t lane) const {
  SlowRails::Load load;
  for (std::size_t i = 0; i < std::min(rails[lane].used.size(), kMostSampled); ++i) {
    const Rank to = rails[lane].used[i];
    const OutStream& stream = *out(lane, to);
    if (stream.state() != StreamState::open || lost_rails.is_lost(to, lane)) continue;
    load.is_usable = true;
    load.acknowledged += stream.acknowledged();
    load.backlog += stream.backlog();
    load.waited_for_reader += stream.socket().waited_for_reader();
  }
  return load;
}

void TcpTransport::Impl::sample() {
  const Nanoseconds when = now();
  if (rails.size() == 1 || when - sampled < kSampleEvery) return;
  sampled = when;
  std::vector<SlowRails::Load> loads;
  for (std::size_t lane = 0; lane < rails.size(); ++lane) loads.push_back(load_of(lane));
  slow_rails.sample(loads);
}

void TcpTransport::Impl::conclude() {
  const Nanoseconds passed = now() - concluded;
  if (passed < kSlowFor) return;
  concluded += passed;
  for (const auto& [lane, bytes] : slow_rails.conclude(passed)) {
    const double rate = static_cast<double>(bytes) * 1e3 / static_cast<double>(passed);
    give_up_all(lane, {fmt::format("{:.3g} MB/s, another is three times as fast", rate), Loss::of_speed});
  }
}

void TcpTransport::Impl::inspect_links() {
  for (std::size_t lane = 0; lane < rails.size(); ++lane)
    if (!is_running(rails[lane].interface)) give_up_all(lane, {"its link is down"});
}

void TcpTransport::Impl::give_up_all(std::size_t lane, const Reason& why) {
  std::set<Rank> peers;
  for (const Rail& rail : rails) peers.insert(rail.used.begin(), rail.used.end());
  for (Rank to : peers) give_up(lane, to, why);
}

// Who waits for its reader is not slow. What goes around a ring waits for its slowest link, so a slow rail is
// given up by all.
void TcpTransport::Impl::inspect_pace(std::size_t lane, Rank to, Nanoseconds passed) {
  OutStream* stream = out(lane, to);
  if (!stream || stream->state() != StreamState::open || lost_rails.is_lost(to, lane)) return;
  Pace& pace = paces[{lane, to}];
  const Pace before = pace;
  pace.acknowledged = stream->acknowledged();
  pace.waited_for_reader = stream->socket().waited_for_reader();
  const auto seconds = static_cast<double>(passed) * 1e-9;
  const double rate = static_cast<double>(pace.acknowledged - before.acknowledged) / seconds;
  const auto backlog = static_cast<double>(stream->backlog());
  const bool is_read = pace.waited_for_reader - before.waited_for_reader < passed / 4;
  bool is_other_free = false;
  for (std::size_t other = 0; other < rails.size(); ++other)
    if (other != lane && !lost_rails.is_lost(to, other))
      is_other_free |= !out(other, to) || out(other, to)->backlog() == 0;
  const bool is_slow = is_other_free && is_read && backlog > rate * kTooSlow_s;
  pace.slow = is_slow ? pace.slow + 1 : 0;
  if (pace.slow <= kTooSlow) return;
  if (rate > 0)
    give_up_all(lane,
                {fmt::format("{:.2f} MB/s to rank {}, while another has nothing to do", rate * 1e-6, to),
                 Loss::of_speed});
  else
    give_up_all(lane, {fmt::format("rank {} acknowledges nothing", to), Loss::of_several});
}

// By a connection that carries nothing until it stands.
void TcpTransport::Impl::try_again() {
  if (!lost_rails.any()) return;
  for (auto [to, lane] : lost_rails.due(now())) {
    end_stream(lane, to);
    if (is_running(rails[lane].interface)) begin_stream(lane, to);
  }
}

void TcpTransport::Impl::say_notes(Nanoseconds before) {
  while (!notes.empty() && notes.front().since <= before) {
    const Note note = std::move(notes.front());
    notes.erase(notes.begin());
    if (!std::exchange(rails[note.lane].is_said_lost, true)) log_warning(note.text);
  }
}

bool TcpTransport::progress(MessageHandler& handler) {
  impl_->handler = &handler;
  std::span<const epoll_event> events = impl_->events.look();
  bool moved = push(0);
  if (++impl_->looks % kLooks == 0) {
    impl_->sample();
    impl_->inspect();
  }
  for (const epoll_event& event : events) {
    std::uint64_t key = event.data.u64;
    auto index = static_cast<std::size_t>(key & 0xffff'ffff);
    switch (static_cast<Kind>(key >> 32)) {
      case Kind::listener:
        impl_->accept_all(index);
        break;
      case Kind::out:
        moved |= impl_->on_out(index);
        break;
      case Kind::in:
        moved |= impl_->on_in(index);
        break;
    }
  }
  for (auto& [lane, from, why] : std::exchange(impl_->broken_ins, {})) impl_->give_up(lane, from, why);
  impl_->check_suspects();
  if (!impl_->failures.empty()) impl_->tell_failures();
  return moved;
}

void TcpTransport::Impl::fail(Rank peer, const Reason& why) {
  if (why.is_silence && failures.empty())
    log_warning(fmt::format("rank {} does not answer ({})", peer, why.text));
  failures.push_back({peer, why.text, now() + (why.is_silence ? kGraceOfSilence : kGrace), now()});
}

// The others hear of the first one, so that they do not take this rank's end for the cause.
void TcpTransport::Impl::tell_failures() {
  if (now() < failures.front().due) return;
  const Failure first = failures.front();
  for (std::size_t lane = 0; lane < rails.size(); ++lane)
    for (Rank to : rails[lane].used)
      if (to != first.peer) out(lane, to)->say_gone(first.peer);
  for (const Failure& failure : std::exchange(failures, {}))
    handler->peer_failed(failure.peer, fmt::format("{}, {:.1f} s ago", failure.why,
                                                   static_cast<double>(now() - failure.since) * 1e-9));
}

void TcpTransport::Impl::gone(Rank says, Rank who) {
  if (who == me || who < 0 || who >= ranks) return;
  failures.insert(failures.begin(), {who, fmt::format("rank {} says so", says), now(), now()});
}

Bytes TcpTransport::bytes_sent(std::size_t lane) const { return impl_->rails[lane].sent; }

int TcpTransport::wake_fd() const { return impl_->events.fd(); }

void TcpTransport::close() {
  if (impl_->failures.empty()) impl_->say_notes(now());
  for (Impl::Rail& rail : impl_->rails) {
    rail.gathering.clear();
    for (Rank to : std::exchange(rail.used, {})) {
      rail.outs[static_cast<std::size_t>(to)]->close();
      rail.outs[static_cast<std::size_t>(to)].reset();
    }
    rail.listener.close();
  }
  for (auto& in : impl_->ins)
    if (in) in->close();
  impl_->strangers.clear();
  impl_->ins.clear();
}

}  // namespace ddl
