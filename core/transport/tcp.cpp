#include "core/transport/tcp.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/net/wait.hpp"
#include "core/transport/tcp_stream.hpp"

namespace ddl {
namespace {

// What an event is about: the kind in the upper half, an index in the lower.
enum class Kind : std::uint32_t { listener, out, in };

constexpr int kQuietLooks = 1024;  // empty looks between two at the clock
constexpr Nanoseconds kListenEvery = 2'000'000'000;

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

struct TcpTransport::Impl {
  struct Rail {
    std::string interface;
    Endpoint local;
    std::uint64_t token = 0;
    Socket listener;
    std::vector<std::unique_ptr<OutStream>> outs;  // by rank in the job
    std::vector<Rank> used;                        // those of outs that exist
    Bytes sent = 0;
    std::vector<Rank> gathering;  // those of used that have had messages since the last push
  };

  Rank me = 0;
  Rank ranks = 0;
  ReceivePool pool;
  std::vector<Rail> rails;  // after set_lanes(): by lane
  std::vector<std::vector<WireAddress>> addresses;
  std::vector<std::unique_ptr<InStream>> ins;
  std::vector<std::pair<Rank, std::string>> failures;
  EventSet events;
  bool said_stranger = false;
  int quiet_looks = 0;
  Nanoseconds next_listening = 0;

  void open_rail(const TcpRail& wanted);
  OutStream* connect(std::size_t lane, Rank to);
  void accept_all(std::size_t lane);
  void check(std::size_t lane, Rank to, bool had_to_send);
  bool on_out(std::size_t index);
  bool on_in(std::size_t index, MessageHandler& handler);
  void listen_for_silence();
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
  for (std::size_t lane = 0; lane < impl_->rails.size(); ++lane) {
    impl_->rails[lane].outs.resize(impl_->addresses.size());
    impl_->events.watch(impl_->rails[lane].listener, EPOLLIN, key_of(Kind::listener, lane));
  }
}

// Edge-triggered: the kernel reports room in a socket only after it had none, so a connection that keeps up
// costs no event.
OutStream* TcpTransport::Impl::connect(std::size_t lane, Rank to) {
  Rail& rail = rails[lane];
  auto& out = rail.outs[static_cast<std::size_t>(to)];
  if (out) return out.get();
  PackedAddress remote{};
  const WireAddress& bytes = addresses[static_cast<std::size_t>(to)][lane];
  if (bytes.size() == sizeof(remote)) std::memcpy(&remote, bytes.data(), sizeof(remote));
  Socket socket = start_connecting(remote.endpoint, rail.local.address);
  if (!socket.is_open()) {
    failures.emplace_back(to, fmt::format("cannot connect over {} to {}: {}", rail.interface,
                                          remote.endpoint.text(), std::strerror(errno)));
    return nullptr;
  }
  out = std::make_unique<OutStream>(std::move(socket),
                                    Hello{Hello::kMagic, remote.token, static_cast<std::uint32_t>(me), 0});
  rail.used.push_back(to);
  rail.gathering.push_back(to);  // its hello
  events.watch(out->socket(), EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
               key_of(Kind::out, lane * static_cast<std::size_t>(ranks) + static_cast<std::size_t>(to)));
  return out.get();
}

bool TcpTransport::send(const Outgoing& message) {
  Impl::Rail& rail = impl_->rails[message.rail];
  for (Rank to : message.to) {
    OutStream* out = rail.outs[static_cast<std::size_t>(to)].get();
    if (!out) out = impl_->connect(message.rail, to);
    if (!out) continue;  // reported as a failed peer by the next progress()
    if (!out->is_gathering()) rail.gathering.push_back(to);
    out->send(message.header, message.payload, *message.unfinished);
    rail.sent += sizeof(Header) + message.payload.size();
    if (out->state() != StreamState::open) impl_->check(message.rail, to, true);
  }
  return true;
}

bool TcpTransport::push(Bytes at_least) {
  bool moved = false;
  for (std::size_t lane = 0; lane < impl_->rails.size(); ++lane) {
    Impl::Rail& rail = impl_->rails[lane];
    std::erase_if(rail.gathering, [&](Rank to) {
      OutStream& out = *rail.outs[static_cast<std::size_t>(to)];
      if (out.state() != StreamState::open) return true;  // that has been said
      moved |= out.push(at_least);
      if (out.state() != StreamState::open) impl_->check(lane, to, true);
      return !out.is_gathering();
    });
  }
  return moved;
}

void TcpTransport::flush(std::uint32_t& unfinished) {
  for (Impl::Rail& rail : impl_->rails)
    for (Rank to : rail.used) rail.outs[static_cast<std::size_t>(to)]->flush(unfinished);
}

// A peer that closes its end says so first; it has failed all the same when there is something to send.
void TcpTransport::Impl::check(std::size_t lane, Rank to, bool had_to_send) {
  const OutStream& out = *rails[lane].outs[static_cast<std::size_t>(to)];
  if (out.state() == StreamState::open) return;
  std::string why = out.why();
  if (out.state() == StreamState::left) {
    if (!had_to_send) return;
    why = "it has left";
  }
  failures.emplace_back(to, fmt::format("connection over {}: {}", rails[lane].interface, why));
}

void TcpTransport::Impl::accept_all(std::size_t lane) {
  while (true) {
    Socket socket = accept_from(rails[lane].listener);
    if (!socket.is_open()) {
      if (errno == EMFILE || errno == ENFILE)
        failures.emplace_back(me, fmt::format("cannot accept a connection over {}: {}", rails[lane].interface,
                                              std::strerror(errno)));
      return;
    }
    std::size_t index = 0;
    while (index < ins.size() && ins[index]) ++index;
    if (index == ins.size()) ins.emplace_back();
    ins[index] = std::make_unique<InStream>(std::move(socket), lane);
    events.watch(ins[index]->socket(), EPOLLIN | EPOLLRDHUP, key_of(Kind::in, index));
  }
}

bool TcpTransport::Impl::on_out(std::size_t index) {
  std::size_t lane = index / static_cast<std::size_t>(ranks);
  auto to = static_cast<Rank>(index % static_cast<std::size_t>(ranks));
  OutStream& out = *rails[lane].outs[static_cast<std::size_t>(to)];
  if (out.state() != StreamState::open) return false;
  bool moved = out.wake();
  check(lane, to, !out.idle());
  return moved;
}

bool TcpTransport::Impl::on_in(std::size_t index, MessageHandler& handler) {
  if (index >= ins.size() || !ins[index]) return false;
  InStream& in = *ins[index];
  const Rail& rail = rails[in.rail()];
  Hello expected{Hello::kMagic, rail.token, static_cast<std::uint32_t>(ranks), 0};
  bool moved = in.receive(expected, pool, handler);
  if (in.state() == StreamState::open) return moved;
  if (in.state() == StreamState::broken && in.from() >= 0)
    failures.emplace_back(in.from(), fmt::format("connection over {}: {}", rail.interface, in.why()));
  if (in.from() < 0 && !std::exchange(said_stranger, true))
    log_warning(fmt::format("a connection over {} that does not belong to this job was refused ({})",
                            rail.interface, in.why()));
  ins[index].reset();
  return moved;
}

// A peer's machine that has gone makes no event. Only asked while nothing else happens, every few seconds.
void TcpTransport::Impl::listen_for_silence() {
  if (++quiet_looks % kQuietLooks != 0 || now() < next_listening) return;
  next_listening = now() + kListenEvery;
  for (std::size_t lane = 0; lane < rails.size(); ++lane)
    for (Rank to : rails[lane].used) {
      OutStream& out = *rails[lane].outs[static_cast<std::size_t>(to)];
      if (out.state() != StreamState::open) continue;
      out.listen_for_silence();
      check(lane, to, true);
    }
}

bool TcpTransport::progress(MessageHandler& handler) {
  std::span<const epoll_event> events = impl_->events.look();
  bool moved = push(0);
  if (events.empty()) impl_->listen_for_silence();
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
        moved |= impl_->on_in(index, handler);
        break;
    }
  }
  if (!impl_->failures.empty())
    for (auto& [peer, why] : std::exchange(impl_->failures, {})) handler.peer_failed(peer, why);
  return moved;
}

Bytes TcpTransport::bytes_sent(std::size_t lane) const { return impl_->rails[lane].sent; }

int TcpTransport::wake_fd() const { return impl_->events.fd(); }

void TcpTransport::close() {
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
  impl_->ins.clear();
}

}  // namespace ddl
