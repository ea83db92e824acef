#include "core/bootstrap/rendezvous_server.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <list>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/signals.hpp"
#include "core/bootstrap/rendezvous_frame.hpp"
#include "core/bootstrap/rendezvous_group.hpp"
#include "core/net/descriptors.hpp"
#include "core/net/wait.hpp"

namespace ddl {
namespace {

using namespace rendezvous;

constexpr double kFarewell_s = 2;  // for answers under way at the end
constexpr int kLook_ms = 500;      // at the clock, for strangers
constexpr int kRest_ms = 50;       // when there are no descriptors for another connection

Socket listen_anywhere(Endpoint& local) {
  const std::uint16_t wanted = local.port;
  Socket listener = listen_on(local);
  if (listener.is_open()) return listener;
  if (wanted != 0)
    throw Error(fmt::format("cannot listen on port {}: {}", wanted, std::strerror(errno)),
                "the ranks of the job look for rank 0 there",
                "see who has it, or choose another one for all ranks with DDL_PORT");
  throw Error(fmt::format("cannot listen on any port: {}", std::strerror(errno)),
              "the ranks of a communicator meet there");
}

// In a time that does not tell how much of it was right.
bool same(const RendezvousId::Token& a, const RendezvousId::Token& b) {
  int difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
  return difference == 0;
}

// A group that meets here.
struct Subgroup {
  RendezvousGroup group{};
  Timeout timeout;  // with it
  std::uint64_t phase = 0;
  bool told_failure = false, is_over = false;

  bool needs_the_clock() const { return group.waits() || (!group.failure().empty() && !is_over); }
  void look_at_the_clock(double limit_s);
  /// What all who are in it have to hear now; null: nothing.
  PackedFrame news();
};

void Subgroup::look_at_the_clock(double limit_s) {
  if (!group.waits()) {
    phase = ~std::uint64_t{0};
  } else if (phase != group.phase()) {
    phase = group.phase();
    timeout = Timeout(limit_s);
  } else if (timeout.is_over()) {
    group.give_up(limit_s);
  }
  // When it has failed, latecomers learn why for a while.
  if (group.all_left() || (told_failure && timeout.is_over())) is_over = true;
}

PackedFrame Subgroup::news() {
  if (group.failure().empty()) return group.is_complete() ? pack_all(group.take_round()) : nullptr;
  if (std::exchange(told_failure, true)) return nullptr;
  return pack_text(Kind::failed, group.failure());
}

struct Client {
  enum class Stage { stranger, welcome, member, going };  // going: hears the rest, says nothing any more
  Socket socket{};
  Stage stage = Stage::stranger;
  std::uint64_t subgroup = 0;
  Rank rank = -1, size = 0;
  FrameReader reader{sizeof(Hello)};
  FrameWriter writer{};
  Timeout silence{kStrangersTime_s};
  bool ready = false, gone = false;
  ~Client() { socket.hang_up(); }
  bool has_joined() const { return stage == Stage::member; }
};

}  // namespace

class RendezvousServer::Service {
 public:
  Service(const RendezvousLimits& limits, const std::vector<std::string>& rails, const RendezvousPort& at);
  ~Service();
  const RendezvousId& id() const { return id_; }
  bool is_over() const { return over_.load(std::memory_order_acquire); }
  bool is_forked_copy() const { return ::getpid() != owner_; }

 private:
  void serve() noexcept;
  bool goes_on();
  void forget_parts();
  std::string refusal(const Client& client) const;
  RendezvousGroup& group_of(const Client& client) { return subgroups_.at(client.subgroup).group; }
  void wait();
  int nap() const;
  void accept_all();
  static bool is_stranger(const Client& client) { return client.stage == Client::Stage::stranger; }
  std::size_t strangers() const;
  void make_room();
  void listen_to(Client& client);
  void hear(Client& client, Frame frame);
  void hear_hello(Client& client, const Frame& frame);
  void hear_join(Client& client);
  void part(Client& client);
  void look_at_the_clock();
  void tell_news();
  void write_all();

  RendezvousLimits limits_;
  Endpoint local_;
  Socket listener_;
  FileDescriptor end_;
  RendezvousId id_;
  pid_t owner_ = ::getpid();
  std::atomic<bool> over_{false};

  // From here on the thread's alone.
  std::map<std::uint64_t, Subgroup> subgroups_;  // those who joined one find it here until all have left it
  std::list<Client> clients_;
  bool has_begun_ = false, has_parts_ = false, is_full_ = false, ending_ = false;
  std::optional<Timeout> emptied_;  // parts may still be on their way when the last member has left
  Timeout farewell_{kFarewell_s};
  Nanoseconds created_ = now();

  std::thread thread_;
};

RendezvousServer::Service::Service(const RendezvousLimits& limits, const std::vector<std::string>& rails,
                                   const RendezvousPort& at)
    : limits_(limits),
      local_{{}, at.port},
      listener_(listen_anywhere(local_)),
      end_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      id_(RendezvousId::make(local_.port, reachable_addresses(rails))) {
  if (!end_.is_open()) throw Error(fmt::format("cannot make an eventfd: {}", std::strerror(errno)));
  if (at.token) id_.token = *at.token;
  SignalsBlocked guard;
  thread_ = std::thread([this] { serve(); });
}

RendezvousServer::Service::~Service() {
  std::uint64_t one = 1;
  [[maybe_unused]] ssize_t written = ::write(end_.fd(), &one, sizeof(one));
  thread_.join();
}

void RendezvousServer::Service::serve() noexcept {
  try {
    while (goes_on()) {
      wait();
      for (Client& client : clients_)
        if (client.ready) listen_to(client);
      clients_.remove_if([](const Client& client) { return client.gone; });
      forget_parts();
      if (!ending_) accept_all();
      look_at_the_clock();
      tell_news();
      write_all();
    }
  } catch (const std::exception&) {  // out of memory: those who wait see their connection end
  }
  clients_.clear();
  listener_.hang_up();
  over_.store(true, std::memory_order_release);
}

bool RendezvousServer::Service::goes_on() {
  bool answers = std::any_of(clients_.begin(), clients_.end(),
                             [](const Client& client) { return !client.writer.empty(); });
  if (ending_) return answers && !farewell_.is_over();
  if (!has_begun_) return now() - created_ < static_cast<Nanoseconds>(limits_.first_s * 1e9);
  bool goes_on = answers || std::any_of(subgroups_.begin(), subgroups_.end(),
                                        [](const auto& one) { return !one.second.is_over; });
  if (goes_on || !has_parts_) return emptied_.reset(), goes_on;
  if (!emptied_) emptied_.emplace(limits_.others_s);
  return !emptied_->is_over();
}

// Nobody can be in them any more; latecomers begin anew.
void RendezvousServer::Service::forget_parts() {
  std::erase_if(subgroups_, [this](const auto& one) {
    auto is_here = [&](const Client& client) { return client.has_joined() && client.subgroup == one.first; };
    return one.first != 0 && one.second.is_over && std::none_of(clients_.begin(), clients_.end(), is_here);
  });
}

int RendezvousServer::Service::nap() const {
  if (is_full_) return kRest_ms;
  bool strangers = std::any_of(clients_.begin(), clients_.end(),
                               [](const Client& client) { return !client.has_joined(); });
  if (ending_) return farewell_.nap();
  int shortest = strangers ? kLook_ms : -1;
  for (const auto& [name, subgroup] : subgroups_)
    if (subgroup.needs_the_clock())
      shortest = shortest < 0 ? subgroup.timeout.nap() : std::min(shortest, subgroup.timeout.nap());
  if (emptied_) return emptied_->nap();
  if (has_begun_ || shortest >= 0) return shortest;
  double left_s = limits_.first_s - static_cast<double>(now() - created_) / 1e9;
  return static_cast<int>(std::clamp(left_s * 1e3 + 1, 1.0, 1e9));
}

void RendezvousServer::Service::wait() {
  PollSet set;
  set.add(end_, ending_ ? Ready::broken : Ready::read);
  set.add(listener_, is_full_ || ending_ ? Ready::broken : Ready::read);
  for (const Client& client : clients_)
    set.add(client.socket, client.writer.empty() ? Ready::read : Ready::either);
  const int nap_ms = nap();
  is_full_ = false;
  set.wait(nap_ms);
  std::size_t next = 2;
  for (Client& client : clients_) client.ready = set.is_ready(next++);
  if (ending_ || !set.is_ready(0)) return;
  ending_ = true;
  for (auto& [name, subgroup] : subgroups_) subgroup.group.close();
  farewell_ = Timeout(kFarewell_s);
}

void RendezvousServer::Service::accept_all() {
  for (int accepted = 0; accepted < kMostAcceptedAtOnce; ++accepted) {
    if (strangers() >= most_strangers()) make_room();
    Socket socket = accept_from(listener_);
    if (!socket.is_open()) {
      is_full_ = errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
      if (!is_full_ || strangers() == 0) return;
      make_room();
      continue;
    }
    keep_descriptors_free(socket.fd());
    clients_.emplace_back().socket = std::move(socket);
    listen_to(clients_.back());  // most have said hello already
  }
}

// The oldest stranger goes: one of us tries again, and a crowd of others cannot keep us out.
void RendezvousServer::Service::make_room() {
  clients_.erase(std::find_if(clients_.begin(), clients_.end(), is_stranger));
}

std::size_t RendezvousServer::Service::strangers() const {
  return static_cast<std::size_t>(std::count_if(clients_.begin(), clients_.end(), is_stranger));
}

void RendezvousServer::Service::listen_to(Client& client) {
  while (!client.gone) {
    FrameReader::State state = client.reader.read(client.socket);
    if (state == FrameReader::State::waiting) break;
    if (state == FrameReader::State::complete)
      hear(client, client.reader.take());
    else
      part(client);
  }
}

void RendezvousServer::Service::hear(Client& client, Frame frame) {
  if (client.stage == Client::Stage::stranger && frame.kind == Kind::hello) return hear_hello(client, frame);
  if (client.stage == Client::Stage::welcome && frame.kind == Kind::join) return hear_join(client);
  if (client.stage == Client::Stage::member && frame.kind == Kind::blob)
    return group_of(client).bring(client.rank, std::move(frame.payload));
  if (client.stage == Client::Stage::member && frame.kind == Kind::leave) {
    group_of(client).leave(client.rank);
    client.stage = Client::Stage::going;
  }
  part(client);
}

std::string RendezvousServer::Service::refusal(const Client& client) const {
  auto subgroup = subgroups_.find(client.subgroup);
  if (subgroup == subgroups_.end()) return RendezvousGroup().refusal(client.rank, client.size);
  return subgroup->second.group.refusal(client.rank, client.size);
}

void RendezvousServer::Service::hear_hello(Client& client, const Frame& frame) {
  std::optional<Hello> hello = frame.as<Hello>();
  if (!hello || !same(hello->token, id_.token)) return part(client);
  client.subgroup = hello->subgroup;
  client.rank = hello->rank;
  client.size = hello->size;
  std::string why = refusal(client);
  client.stage = why.empty() ? Client::Stage::welcome : Client::Stage::going;
  client.writer.add(why.empty() ? pack_value(Kind::welcome, limits_.others_s)
                                : pack_text(Kind::refused, why));
}

// Two may have been welcomed as the same rank: the second to join is refused.
void RendezvousServer::Service::hear_join(Client& client) {
  std::string why = refusal(client);
  client.stage = why.empty() ? Client::Stage::member : Client::Stage::going;
  client.writer.add(why.empty() ? pack_frame(Kind::joined) : pack_text(Kind::refused, why));
  if (!why.empty()) return;
  client.reader.allow(kMaxBlob);
  auto [subgroup, is_new] =
      subgroups_.try_emplace(client.subgroup, Subgroup{.timeout = Timeout(limits_.others_s)});
  subgroup->second.group.join(client.rank, client.size);
  has_begun_ = true;
  has_parts_ |= client.subgroup != 0;
}

void RendezvousServer::Service::part(Client& client) {
  if (client.has_joined()) group_of(client).lose(client.rank);
  client.gone = true;
}

void RendezvousServer::Service::look_at_the_clock() {
  for (Client& client : clients_)
    if (!client.has_joined() && client.silence.is_over()) client.gone = true;
  if (ending_) return;
  for (auto& [name, subgroup] : subgroups_) subgroup.look_at_the_clock(limits_.others_s);
}

void RendezvousServer::Service::tell_news() {
  for (auto& [name, subgroup] : subgroups_) {
    PackedFrame news = subgroup.news();
    if (!news) continue;
    if (subgroup.told_failure) subgroup.timeout = Timeout(limits_.others_s);
    for (Client& client : clients_)
      if (client.has_joined() && client.subgroup == name) client.writer.add(news);
  }
}

void RendezvousServer::Service::write_all() {
  for (Client& client : clients_)
    if (!client.gone && !client.writer.empty() && !client.writer.write(client.socket))
      client.socket.shut_down();  // what it said before is heard, then its end
  clients_.remove_if([](const Client& client) { return client.gone; });
}

RendezvousServer::RendezvousServer(const RendezvousLimits& limits, const std::vector<std::string>& rails,
                                   const RendezvousPort& at)
    : service_(std::make_unique<Service>(limits, rails, at)) {}

// A forked child has the object without its thread, in whatever state that was: it is left alone.
RendezvousServer::~RendezvousServer() {
  if (service_->is_forked_copy()) static_cast<void>(service_.release());
}

const RendezvousId& RendezvousServer::id() const { return service_->id(); }

bool RendezvousServer::is_over() const { return service_->is_over(); }

}  // namespace ddl
