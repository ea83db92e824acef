#include "core/transport/tcp.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/base/random.hpp"
#include "core/net/descriptors.hpp"
#include "core/transport/tcp_impl.hpp"

namespace ddl {
namespace {

// Between two at the clock. Where others want the cores, too, a round may take tens of milliseconds.
constexpr int kLooks = 8;
// Before a failure is told: the peer may have ended because of another, and may be about to say so; or the
// launcher ends all ranks, of which this one is not the last.
constexpr Nanoseconds kGrace = 300'000'000;
// Where a machine is silent the launcher finds that out, too, and ends the job better than a rank can.
constexpr Nanoseconds kGraceOfSilence = 3'000'000'000;
// For what the kernel has not sent yet when a rank ends.
constexpr double kMostPatienceAtEnd_s = 1;

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

void TcpTransport::Impl::open_rail(const TcpRail& wanted) {
  Rail rail;
  rail.interface = wanted.interface;
  rail.token = random_number();
  rail.listener = listen_on(wanted, rail.local);
  rails.push_back(std::move(rail));
}

TcpTransport::TcpTransport(const std::vector<TcpRail>& rails, Rank me) : impl_(std::make_unique<Impl>()) {
  impl_->me = me;
  for (const TcpRail& rail : rails) impl_->open_rail(rail);
}

TcpTransport::~TcpTransport() { close(); }

WireAddress TcpTransport::address(std::size_t interface) const {
  PackedTcpAddress packed{impl_->rails[interface].token, impl_->rails[interface].local};
  WireAddress bytes(sizeof(packed));
  std::memcpy(bytes.data(), &packed, sizeof(packed));
  return bytes;
}

void TcpTransport::set_rails(const std::vector<std::size_t>& interface_of_rail,
                             std::vector<std::vector<WireAddress>> addresses) {
  std::vector<Impl::Rail> rails;
  for (std::size_t interface : interface_of_rail) rails.push_back(std::move(impl_->rails[interface]));
  impl_->rails = std::move(rails);
  impl_->addresses = std::move(addresses);
  impl_->ranks = static_cast<Rank>(impl_->addresses.size());
  impl_->lost_rails = LostRails(impl_->rails.size());
  for (std::size_t rail = 0; rail < impl_->rails.size(); ++rail) {
    impl_->rails[rail].outs.resize(impl_->addresses.size());
    impl_->events.watch(impl_->rails[rail].listener, EPOLLIN, key_of(TcpEvent::listener, rail));
  }
}

OutStream* TcpTransport::Impl::connect(std::size_t rail, Rank to) {
  if (OutStream* known = out(rail, to)) return known;
  if (OutStream* answer = answer_on(rail, to)) return answer;
  if (OutStream* made = begin_stream(rail, to)) return made;
  const Reason why{fmt::format("cannot connect over {}: {}", rails[rail].interface, std::strerror(errno))};
  if (rails.size() > 1)
    give_up(rail, to, why);
  else
    fail(to, why);
  return nullptr;
}

// Null where it cannot even begin; errno says why.
OutStream* TcpTransport::Impl::begin_stream(std::size_t rail, Rank to) {
  Socket socket = start_connecting(address_of(rail, to).endpoint, rails[rail].local.address);
  if (!socket.is_open()) return nullptr;
  OutStream* made = add_out(rail, to, std::move(socket));
  if (is_two_way()) listen(rail, to);
  return made;
}

// Edge-triggered: the kernel reports room in a socket only after it had none, so a connection that keeps up
// costs no event.
OutStream* TcpTransport::Impl::add_out(std::size_t rail, Rank to, Socket socket) {
  Rail& one = rails[rail];
  auto& out = one.outs[static_cast<std::size_t>(to)];
  keep_descriptors_free(socket.fd());
  out = std::make_unique<OutStream>(std::move(socket),
                                    Hello{Hello::kMagic, address_of(rail, to).token,
                                          static_cast<std::uint32_t>(me), lost_rails.times(to, rail)},
                                    rails.size() > 1 ? Keeps::unacknowledged : Keeps::nothing,
                                    is_two_way() ? Hears::through_partner : Hears::itself);
  one.used.push_back(to);
  one.gathering.push_back(to);  // its hello
  events.watch(out->socket(), EPOLLOUT | EPOLLET | (is_two_way() ? 0u : EPOLLIN | EPOLLRDHUP),
               key_of(TcpEvent::out, rail * static_cast<std::size_t>(ranks) + static_cast<std::size_t>(to)));
  return out.get();
}

void TcpTransport::Impl::end_stream(std::size_t rail, Rank to) {
  Rail& one = rails[rail];
  auto& out = one.outs[static_cast<std::size_t>(to)];
  if (!out) return;
  out->hang_up();
  out.reset();
  std::erase(one.used, to);
  std::erase(one.gathering, to);
  paces.erase({rail, to});
}

// Null where none is left, or the only one cannot even begin.
OutStream* TcpTransport::Impl::stream_for(std::size_t& rail, Rank to) {
  if (rails.size() == 1) return connect(rail, to);
  while (std::optional<std::size_t> carrier = lost_rails.carrier(to, rail))
    if (OutStream* stream = connect(*carrier, to)) return rail = *carrier, stream;
  return nullptr;
}

bool TcpTransport::send(const Outgoing& message) {
  for (Rank to : message.to) {
    std::size_t rail = message.rail;
    OutStream* out = impl_->stream_for(rail, to);
    if (!out) continue;  // reported as a failed peer by the next progress()
    Impl::Rail& one = impl_->rails[rail];
    if (!out->is_gathering()) one.gathering.push_back(to);
    out->send(message.header, message.payload, *message.unfinished);
    one.sent += sizeof(Header) + message.payload.size();
    if (out->state() != StreamState::open) impl_->check(rail, to, true);
  }
  return true;
}

void TcpTransport::give_up(std::size_t rail, const std::string& why, Loss loss) {
  impl_->give_up_all(
      rail, {why, loss, loss == Loss::of_a_peer ? LostRails::Kind::broken : LostRails::Kind::avoided});
}

bool TcpTransport::push(Bytes at_least) {
  bool moved = false;
  for (std::size_t rail = 0; rail < impl_->rails.size(); ++rail) {
    Impl::Rail& one = impl_->rails[rail];
    std::erase_if(one.gathering, [&](Rank to) {
      OutStream& out = *one.outs[static_cast<std::size_t>(to)];
      if (out.state() != StreamState::open) return true;  // that has been said
      moved |= out.push(at_least);
      if (out.state() != StreamState::open) impl_->suspects.emplace_back(rail, to);
      return !out.is_gathering();
    });
  }
  if (!impl_->suspects.empty()) impl_->check_suspects();
  return moved;
}

bool TcpTransport::has_left(Rank rank) const {
  const OutStream* stream = impl_->out(0, rank);
  return stream && stream->state() != StreamState::open;
}

// A stream of a rail that is tried again has nothing to flush but its hello.
void TcpTransport::flush(std::span<const Rank> to, std::uint32_t& unfinished) {
  for (std::size_t rail = 0; rail < impl_->rails.size(); ++rail)
    for (Rank rank : to) {
      OutStream* stream = impl_->out(rail, rank);
      if (stream && !impl_->lost_rails.is_lost(rank, rail)) stream->flush(unfinished);
    }
}

bool TcpTransport::Impl::on_out(std::size_t index) {
  std::size_t rail = index / static_cast<std::size_t>(ranks);
  auto to = static_cast<Rank>(index % static_cast<std::size_t>(ranks));
  OutStream* stream = out(rail, to);
  if (!stream || stream->state() != StreamState::open) return false;
  bool moved = stream->wake();
  if (!lost_rails.is_lost(to, rail)) {
    check(rail, to, !stream->idle());
  } else if (stream->state() != StreamState::open) {  // it does not carry yet
    end_stream(rail, to);
  } else if (stream->idle()) {  // it has said hello
    lost_rails.regain(to, rail);
    if (std::exchange(rails[rail].is_said_lost, false))
      log_warning(fmt::format("rail {} carries again (rank {})", rails[rail].interface, to));
  }
  return moved;
}

bool TcpTransport::progress(MessageHandler& handler) {
  impl_->handler = &handler;
  std::span<const epoll_event> events = impl_->events.look();
  bool moved = push(0);
  if (++impl_->looks % kLooks == 0) {
    const Nanoseconds when = now();
    impl_->sample(when);
    impl_->inspect(when);
  }
  for (const epoll_event& event : events) {
    std::uint64_t key = event.data.u64;
    auto index = static_cast<std::size_t>(key & 0xffff'ffff);
    switch (static_cast<TcpEvent>(key >> 32)) {
      case TcpEvent::listener:
        impl_->accept_all(index);
        break;
      case TcpEvent::out:
        moved |= impl_->on_out(index);
        break;
      case TcpEvent::in:
        moved |= impl_->on_in(index);
        break;
    }
  }
  if (!impl_->broken_ins.empty()) impl_->check_broken_ins();
  impl_->check_suspects();
  if (!impl_->failures.empty()) impl_->tell_failures();
  return moved;
}

void TcpTransport::Impl::fail(Rank peer, const Reason& why) {
  if (why.is_silence && failures.empty())
    log_warning(fmt::format("rank {} does not answer ({})", peer, why.text));
  failures.push_back({peer, why.text, now() + (why.is_silence ? kGraceOfSilence : kGrace), now()});
}

// The others hear of the first one, so that they do not take this rank's end for the cause; and in its own
// words, which may come this way before they come from itself.
void TcpTransport::Impl::tell_failures() {
  if (now() < failures.front().due) return;
  const Failure first = failures.front();
  for (std::size_t rail = 0; rail < rails.size(); ++rail)
    for (Rank to : rails[rail].used)
      if (to != first.peer) out(rail, to)->say_gone(first.peer, first.own_words);
  for (const Failure& failure : std::exchange(failures, {}))
    handler->peer_failed(failure.peer, fmt::format("{}, {:.1f} s ago", failure.why,
                                                   static_cast<double>(now() - failure.since) * 1e-9));
}

void TcpTransport::say_failed(const std::string& why) {
  const bool is_first = !std::exchange(impl_->has_said_failed, true);
  for (std::size_t rail = 0; rail < impl_->rails.size(); ++rail)
    for (Rank to : impl_->rails[rail].used) {
      OutStream* stream = impl_->rails[rail].outs[static_cast<std::size_t>(to)].get();
      if (!stream) continue;
      if (is_first) stream->say_gone(impl_->me, why);
      stream->wake();
    }
}

void TcpTransport::Impl::gone(Rank says, Rank who, std::string_view why) {
  if (who == me || who < 0 || who >= ranks) return;
  const std::string text =
      why.empty() ? fmt::format("rank {} says so", says) : fmt::format("it has failed: {}", why);
  failures.insert(failures.begin(), {who, text, now(), now(), std::string(why)});
}

Bytes TcpTransport::bytes_sent(std::size_t rail) const { return impl_->rails[rail].sent; }

int TcpTransport::wake_fd() const { return impl_->events.fd(); }

void TcpTransport::close() {
  std::set<Rank> told;
  if (impl_->failures.empty()) impl_->say_notes(now());
  for (Impl::Rail& rail : impl_->rails) {
    rail.gathering.clear();
    for (Rank to : std::exchange(rail.used, {})) {
      if (rail.outs[static_cast<std::size_t>(to)]->close()) told.insert(to);
      rail.outs[static_cast<std::size_t>(to)].reset();
    }
    rail.listener.close();
  }
  Timeout patience(kMostPatienceAtEnd_s);
  // Those first that have a farewell to say: it acknowledges what others wait for.
  std::erase_if(impl_->ins, [&](auto& in) {
    const bool waits = in && told.contains(in->partner());
    if (in && !waits) in->close();
    return !waits;
  });
  for (auto& in : impl_->ins) {
    in->let_partner_leave(patience);
    in->close();
  }
  impl_->strangers.clear();
  impl_->ins.clear();
}

}  // namespace ddl
