// The connections that other ranks make to this one, and those of strangers.
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/clock.hpp"
#include "core/base/log.hpp"
#include "core/net/descriptors.hpp"
#include "core/transport/tcp_impl.hpp"

namespace ddl {
namespace {

// A stranger that one of us may be has had that long to say hello.
constexpr Nanoseconds kStrangersLeast = 100'000'000;
}  // namespace

// Ranks of other hosts connect from the addresses of their rails.
bool TcpTransport::Impl::is_peer(std::size_t rail, const IpAddress& remote) const {
  for (Rank rank = 0; rank < ranks; ++rank) {
    const IpAddress known = address_of(rail, rank).endpoint.address;
    if (rank != me && known.family != 0 && known == remote) return true;
  }
  return false;
}

void TcpTransport::Impl::accept_all(std::size_t rail) {
  const std::size_t most = most_strangers();
  for (int accepted = 0; accepted < kMostAcceptedAtOnce; ++accepted) {
    if (strangers.size() >= most && !make_room(kStrangersLeast)) return;
    Socket socket = accept_from(rails[rail].listener);
    if (!socket.is_open()) {
      const bool is_full = errno == EMFILE || errno == ENFILE;
      if (is_full && make_room(kStrangersLeast)) continue;
      if (is_full) refuse(rail, fmt::format("none can be accepted for the moment: {}", std::strerror(errno)));
      return;
    }
    keep_descriptors_free(socket.fd());
    if (!is_peer(rail, socket.remote())) {
      refuse(rail, "it comes from another machine");
      continue;
    }
    strangers.push_back({&add_in(std::move(socket), rail, -1), now()});
  }
}

InStream& TcpTransport::Impl::add_in(Socket socket, std::size_t rail, Rank partner) {
  std::size_t index = 0;
  while (index < ins.size() && ins[index]) ++index;
  if (index == ins.size()) ins.emplace_back();
  ins[index] = std::make_unique<InStream>(std::move(socket), rail, partner);
  events.watch(ins[index]->socket(), EPOLLIN | EPOLLRDHUP, key_of(TcpEvent::in, index));
  return *ins[index];
}

// ---- both directions of one connection ----

// What is answered acknowledges what has come; on a connection of its own every direction costs packets that
// only acknowledge. So who sends to a rank that has connected uses that connection; two that connect to each
// other at once have one for each direction. Where there are several rails each direction is lost and taken
// back by itself, and has its own.

// Null where that rank has not connected.
OutStream* TcpTransport::Impl::answer_on(std::size_t rail, Rank to) {
  if (!is_two_way()) return nullptr;
  for (const auto& in : ins) {
    if (!in || in->from() != to || in->partner() >= 0 || in->state() != StreamState::open) continue;
    Socket socket = in->socket().duplicate();
    if (!socket.is_open()) return nullptr;
    in->is_answered();
    return add_out(rail, to, std::move(socket));
  }
  return nullptr;
}

// Hears what comes back on a connection of this rank's. From the start: later no event may come, as who fills
// it at once is not told of room in it.
void TcpTransport::Impl::listen(std::size_t rail, Rank to) {
  OutStream& stream = *out(rail, to);
  Socket socket = stream.socket().duplicate();
  if (!socket.is_open()) return stream.ended(StreamState::broken, std::strerror(errno), false);
  add_in(std::move(socket), rail, to);
}

// The partner of an InStream that has ended.
void TcpTransport::Impl::end_partner(const InStream& in) {
  OutStream& partner = *out(in.rail(), in.partner());
  partner.ended(in.state(), in.why(), in.is_silent());
  check(in.rail(), in.partner(), !partner.idle());
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

void TcpTransport::Impl::refuse(std::size_t rail, const std::string& why) {
  if (!std::exchange(said_stranger, true))
    log_warning(fmt::format("a connection over {} that does not belong to this job was refused ({})",
                            rails[rail].interface, why));
}

void TcpTransport::Impl::remove_in(std::size_t index) {
  std::erase_if(strangers, [&](const Stranger& one) { return one.in == ins[index].get(); });
  events.forget(ins[index]->socket());
  ins[index].reset();
}

bool TcpTransport::Impl::on_in(std::size_t index) {
  if (index >= ins.size() || !ins[index]) return false;
  InStream& in = *ins[index];
  const std::size_t rail = in.rail();
  bool moved = in.receive(hello_of(rail), pool, *handler, *this);
  const bool is_new = in.from() >= 0 && !strangers.empty() &&
                      std::erase_if(strangers, [&](const Stranger& one) { return one.in == &in; }) > 0;
  if (is_new && in.state() == StreamState::open) lost_ins.erase({in.from(), rail});
  if (in.state() == StreamState::open) return moved;
  // Who has ended it may live.
  const Reason why{fmt::format("connection over {}: {}", rails[rail].interface, in.why()), Loss::of_a_peer,
                   in.is_silent() ? LostRails::Kind::broken : LostRails::Kind::avoided, in.is_silent()};
  const Rank from = in.from();
  if (in.partner() >= 0) end_partner(in);
  if (in.state() == StreamState::broken && from >= 0) {
    if (rails.size() > 1) {
      ended_ins.add({from, rail, in.epoch()}, in.next_frame());
      in.abandon(*handler);
      lost_ins.insert({from, rail});
      broken_ins.push_back({{from, rail, in.epoch()}, why, now()});
    } else {
      fail(from, why);
    }
  }
  if (from < 0 && in.partner() < 0) refuse(rail, in.why());
  remove_in(index);
  return moved;
}

}  // namespace ddl
