#include "core/bootstrap/rendezvous_frame.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/clock.hpp"

namespace ddl::rendezvous {
namespace {

constexpr std::uint32_t kMagic = 0x31766472;
constexpr std::size_t kBite = 256 << 10;
constexpr Nanoseconds kSecond = 1'000'000'000;

// A frame being put together; its length is known before.
class Packing {
 public:
  Packing(Kind kind, Bytes length) : bytes_(sizeof(Head) + length) {
    Head head{kMagic, kind, length};
    add(&head, sizeof(head));
  }
  void add(const void* from, std::size_t bytes) {
    if (bytes > 0) std::memcpy(bytes_.data() + at_, from, bytes);
    at_ += bytes;
  }
  Packed done() { return std::make_shared<const std::vector<std::byte>>(std::move(bytes_)); }

 private:
  std::vector<std::byte> bytes_;
  std::size_t at_ = 0;
};

}  // namespace

Packed pack_frame(Kind kind, std::span<const std::byte> payload) {
  Packing packing(kind, payload.size());
  packing.add(payload.data(), payload.size());
  return packing.done();
}

Packed pack_text(Kind kind, const std::string& text) {
  return pack_frame(kind,
                    std::as_bytes(std::span(text.data(), std::min<std::size_t>(text.size(), kMaxText))));
}

Packed pack_all(const std::vector<std::vector<std::byte>>& blobs) {
  Bytes length = blobs.size() * sizeof(std::uint64_t);
  for (const auto& blob : blobs) length += blob.size();
  Packing packing(Kind::all, length);
  for (const auto& blob : blobs) {
    std::uint64_t size = blob.size();
    packing.add(&size, sizeof(size));
  }
  for (const auto& blob : blobs) packing.add(blob.data(), blob.size());
  return packing.done();
}

std::optional<std::vector<std::vector<std::byte>>> unpack_all(const Frame& frame, Rank size) {
  std::vector<std::vector<std::byte>> blobs(static_cast<std::size_t>(size));
  std::size_t at = blobs.size() * sizeof(std::uint64_t);
  const std::vector<std::byte>& bytes = frame.payload;
  if (frame.kind != Kind::all || bytes.size() < at) return std::nullopt;
  for (std::size_t rank = 0; rank < blobs.size(); ++rank) {
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data() + rank * sizeof(length), sizeof(length));
    if (length > bytes.size() - at) return std::nullopt;
    blobs[rank].assign(bytes.data() + at, bytes.data() + at + length);
    at += length;
  }
  if (at != bytes.size()) return std::nullopt;
  return blobs;
}

Handle::~Handle() {
  if (fd_ < 0) return;
  int why = errno;             // of what made somebody give it up
  ::shutdown(fd_, SHUT_RDWR);  // does nothing where it is no socket
  ::close(fd_);
  errno = why;
}

void Handle::abandon() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

// Nothing when `into` has `wanted` bytes.
std::optional<FrameReader::State> FrameReader::fill(int fd, std::vector<std::byte>& into,
                                                    std::size_t wanted) {
  while (into.size() < wanted) {
    std::size_t have = into.size();
    into.resize(std::min(wanted, have + kBite));
    ssize_t got = ::recv(fd, into.data() + have, into.size() - have, MSG_DONTWAIT);
    int why = errno;
    into.resize(have + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got > 0 || (got < 0 && why == EINTR)) continue;
    return got < 0 && (why == EAGAIN || why == EWOULDBLOCK) ? State::waiting : State::ended;
  }
  return std::nullopt;
}

FrameReader::State FrameReader::read(int fd) {
  if (auto state = fill(fd, head_, sizeof(Head))) return *state;
  Head head;
  std::memcpy(&head, head_.data(), sizeof(head));
  if (head.magic != kMagic || head.length > longest_) return State::garbage;
  frame_.kind = head.kind;
  if (auto state = fill(fd, frame_.payload, head.length)) return *state;
  return State::complete;
}

Frame FrameReader::take() {
  head_.clear();
  return std::exchange(frame_, {});
}

bool FrameWriter::write(int fd) {
  while (!queue_.empty()) {
    const std::vector<std::byte>& bytes = *queue_.front();
    ssize_t sent = ::send(fd, bytes.data() + written_, bytes.size() - written_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    written_ += static_cast<std::size_t>(sent);
    if (written_ < bytes.size()) continue;
    queue_.pop_front();
    written_ = 0;
  }
  return true;
}

Patience::Patience(double seconds)
    : left_(static_cast<Nanoseconds>(std::clamp(seconds, 0.0, 1e9) * 1e9)), asked_(now()) {}

bool Patience::is_over() {
  Nanoseconds time = now();
  left_ -= std::min(time - asked_, kSecond);
  asked_ = time;
  return left_ <= 0;
}

int Patience::nap() const { return static_cast<int>(std::clamp<Nanoseconds>(left_ / 1'000'000 + 1, 1, 500)); }

void tune_socket(int fd) {
  auto set = [&](int level, int option, int value) {
    ::setsockopt(fd, level, option, &value, sizeof(value));  // all improve something, none is needed
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
}

}  // namespace ddl::rendezvous
