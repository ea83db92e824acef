#include "core/bootstrap/rendezvous_client.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "core/base/error.hpp"

namespace ddl {

using namespace rendezvous;

namespace {

constexpr double kFirstTry_s = 2;  // for one address; doubled whenever all were tried in vain
constexpr double kSlack_s = 30;    // the server speaks at its own limit, and that has to arrive
constexpr std::chrono::milliseconds kBetweenTries(100);
constexpr const char* kWhy = "the ranks of a communicator meet there";

Bytes longest_answer(Rank size) {
  return std::max<Bytes>(kMaxText,
                         static_cast<Bytes>(std::max(size, 1)) * (kMaxBlob + sizeof(std::uint64_t)));
}

}  // namespace

RendezvousClient::RendezvousClient(const RendezvousId& id, Rank rank, Rank size, double timeout_s)
    : id_(id), rank_(rank), size_(size), owner_(::getpid()), reader_(longest_answer(size)) {
  const std::vector<IpAddress> places = id_.places();
  for (const IpAddress& place : places) refusals_.push_back(Endpoint{place, id_.port}.text() + ": not tried");
  Timeout timeout(timeout_s);
  for (double limit_s = std::min(kFirstTry_s, timeout_s); !try_all(places, limit_s, timeout); limit_s *= 2) {
    // Where parts of a group meet was a server before: it will not come again.
    if (timeout.is_over() || (is_gone_ && id_.subgroup != 0)) fail_unreachable(timeout_s);
    std::this_thread::sleep_for(kBetweenTries);
  }
  join(timeout_s);
}

RendezvousClient::~RendezvousClient() {
  if (::getpid() != owner_) return;
  if (!failed_) send(pack_frame(Kind::leave), 1);
  socket_.hang_up();
}

bool RendezvousClient::try_all(const std::vector<IpAddress>& places, double limit_s, Timeout& timeout) {
  is_gone_ = true;
  for (std::size_t i = 0; i < places.size() && !timeout.is_over(); ++i) {
    const Endpoint place{places[i], id_.port};
    server_ = place.text();
    socket_.hang_up();
    socket_ = connect_to(place, Timeout(limit_s));
    const int error = socket_.is_open() ? 0 : errno;
    if (error == 0 && say_hello(limit_s)) return true;
    is_gone_ &= error == ECONNREFUSED;
    refusals_[i] = server_ + ": " +
                   (error == 0 ? "who answers there knows nothing of this unique id" : std::strerror(error));
  }
  return false;
}

// A stranger at that address says something else, or nothing.
bool RendezvousClient::say_hello(double limit_s) {
  reader_ = FrameReader(longest_answer(size_));
  if (!send(pack_value(Kind::hello, Hello{id_.token, id_.subgroup, rank_, size_}), limit_s)) return false;
  if (hear(limit_s) != FrameReader::State::complete) return false;
  Frame answer = reader_.take();
  if (answer.kind == Kind::refused) throw Error(answer.text());
  std::optional<double> limit = answer.as<double>();
  if (answer.kind != Kind::welcome || !limit) return false;
  limit_s_ = *limit;
  return true;
}

void RendezvousClient::join(double timeout_s) {
  FrameReader::State state = FrameReader::State::ended;
  if (send(pack_frame(Kind::join), timeout_s)) state = hear(timeout_s);
  if (state != FrameReader::State::complete) fail_silent(state);
  Frame answer = reader_.take();
  if (answer.kind != Kind::joined) throw Error(answer.text());
}

RendezvousClient::Blobs RendezvousClient::exchange(std::span<const std::byte> blob) {
  give(blob);
  return receive();
}

void RendezvousClient::give(std::span<const std::byte> blob) {
  if (blob.size() > kMaxBlob)
    throw Error(
        fmt::format("rank {} wants to exchange {} bytes, {} are possible", rank_, blob.size(), kMaxBlob));
  send(pack_frame(Kind::blob, blob), limit_s_ + kSlack_s);  // what is wrong is heard in receive
}

RendezvousClient::Blobs RendezvousClient::receive() { return take_answer(hear(limit_s_ + kSlack_s)); }

std::optional<RendezvousClient::Blobs> RendezvousClient::receive_what_is_here() {
  FrameReader::State state = reader_.read(socket_);
  if (state == FrameReader::State::waiting) return std::nullopt;
  return take_answer(state);
}

RendezvousClient::Blobs RendezvousClient::take_answer(FrameReader::State state) {
  if (state != FrameReader::State::complete) fail_silent(state);
  Frame answer = reader_.take();
  std::optional<Blobs> blobs = unpack_all(answer, size_);
  if (blobs) return std::move(*blobs);
  failed_ = true;
  if (answer.kind == Kind::failed) throw Error(answer.text());
  throw Error(
      fmt::format("the rendezvous at {} answers rank {} in a way nobody understands", server_, rank_));
}

std::string RendezvousClient::look() {
  FrameReader::State state = failed_ ? FrameReader::State::ended : reader_.read(socket_);
  if (state == FrameReader::State::waiting) return {};
  failed_ = true;
  if (state == FrameReader::State::complete)
    if (Frame news = reader_.take(); news.kind == Kind::failed) return news.text();
  return "the process that keeps the rendezvous has ended";
}

void RendezvousClient::vanish() {
  failed_ = true;
  socket_.hang_up();
}

bool RendezvousClient::send(PackedFrame frame, double limit_s) {
  FrameWriter writer;
  writer.add(std::move(frame));
  Timeout timeout(limit_s);
  do {
    if (!writer.write(socket_)) return false;
    if (writer.empty()) return true;
  } while (wait_until(socket_, Ready::write, timeout));
  return false;
}

FrameReader::State RendezvousClient::hear(double limit_s) {
  Timeout timeout(limit_s);
  FrameReader::State state = reader_.read(socket_);
  while (state == FrameReader::State::waiting && wait_until(socket_, Ready::read, timeout))
    state = reader_.read(socket_);
  return state;
}

void RendezvousClient::fail_unreachable(double timeout_s) const {
  throw Error(
      fmt::format("rank {} reaches no rendezvous {}: {}", rank_,
                  id_.subgroup != 0 && is_gone_ ? "any more" : fmt::format("within {:g} s", timeout_s),
                  fmt::join(refusals_, ", ")),
      kWhy,
      "see that the process that keeps it lives, and that no firewall is between; DDL_RAILS "
      "chooses the interfaces");
}

void RendezvousClient::fail_silent(FrameReader::State state) {
  failed_ = true;
  const char* how = state == FrameReader::State::waiting ? "does not answer" : "has closed the connection";
  throw Error(fmt::format("the rendezvous at {} {} to rank {}", server_, how, rank_), kWhy,
              "see whether the process that keeps it has ended");
}

}  // namespace ddl
