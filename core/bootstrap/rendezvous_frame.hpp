// What travels between the ranks of a rendezvous and its server, and how it is read and written without ever
// blocking.
//
//   frame   = magic u32, kind u32, length u64, payload[length]
//   rank   -> server: hello {token, circle, rank, size}; join; blob; leave
//   server -> rank:   welcome {limit f64, seconds}; joined; all {length u64 per rank, blobs}; refused, failed
//                     {text}
//
// A rank says hello, hears welcome and joins; until it has joined it can go away unnoticed and try another
// address. Then it sends one blob per round and hears all. A server says nothing to those without the token.
// Thread safety: none, values of one thread.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/types.hpp"
#include "core/bootstrap/rendezvous_id.hpp"

namespace ddl::rendezvous {

inline constexpr Bytes kMaxBlob = Bytes{16} << 20;
inline constexpr Bytes kMaxText = 4096;

enum class Kind : std::uint32_t { hello = 1, join, blob, leave, welcome, joined, all, refused, failed };

struct Head {
  std::uint32_t magic;
  Kind kind;
  std::uint64_t length;
};

struct Hello {
  RendezvousId::Token token;
  std::uint64_t circle;
  Rank rank, size;
};

struct Frame {
  Kind kind{};
  std::vector<std::byte> payload;
  std::string text() const { return {reinterpret_cast<const char*>(payload.data()), payload.size()}; }
  /// The payload as a plain value; nothing where it has another size.
  template <class Value>
  std::optional<Value> as() const;
};

/// A frame as it travels; many receivers may share it.
using Packed = std::shared_ptr<const std::vector<std::byte>>;
Packed pack_frame(Kind kind, std::span<const std::byte> payload = {});
Packed pack_text(Kind kind, const std::string& text);
template <class Value>
Packed pack_value(Kind kind, const Value& value) {
  return pack_frame(kind, std::as_bytes(std::span(&value, 1)));
}
/// An `all` frame of these blobs, and what it holds.
Packed pack_all(const std::vector<std::vector<std::byte>>& blobs);
std::optional<std::vector<std::vector<std::byte>>> unpack_all(const Frame& frame, Rank size);

/// Owns a descriptor. A socket is shut down before it is closed, so that a copy that a forked child holds
/// does not keep the connection alive.
class Handle {
 public:
  Handle() = default;
  explicit Handle(int fd) : fd_(fd) {}
  Handle(Handle&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Handle();
  int get() const { return fd_; }
  /// Closes this process's copy only.
  void abandon();

 private:
  int fd_ = -1;
};

/// Reads frames as their bytes come. Memory grows with what has come, not with what a head promises.
class FrameReader {
 public:
  enum class State { waiting, complete, ended, garbage };
  /// Frames longer than that are garbage.
  explicit FrameReader(Bytes longest) : longest_(longest) {}
  void allow(Bytes longest) { longest_ = longest; }
  /// Reads until a frame is complete or nothing more is there. Every complete frame must be taken.
  State read(int fd);
  Frame take();

 private:
  std::optional<State> fill(int fd, std::vector<std::byte>& into, std::size_t wanted);
  Bytes longest_;
  std::vector<std::byte> head_;
  Frame frame_;
};

class FrameWriter {
 public:
  void add(Packed frame) { queue_.push_back(std::move(frame)); }
  bool empty() const { return queue_.empty(); }
  /// Writes what the socket takes. False when the connection is broken.
  bool write(int fd);

 private:
  std::deque<Packed> queue_;
  std::size_t written_ = 0;  // of the first
};

/// A limit on waiting that counts only time in which this process ran: one that was stopped or suspended for
/// minutes must not accuse the others. It has to be asked at least twice a second to count fully.
class Patience {
 public:
  explicit Patience(double seconds);
  bool is_over();
  /// Milliseconds until it should be asked again.
  int nap() const;

 private:
  Nanoseconds left_, asked_;
};

/// No delay, and broken when the other host has been silent for half a minute.
void tune_socket(int fd);

template <class Value>
std::optional<Value> Frame::as() const {
  if (payload.size() != sizeof(Value)) return std::nullopt;
  Value value;
  std::copy(payload.begin(), payload.end(), reinterpret_cast<std::byte*>(&value));
  return value;
}

}  // namespace ddl::rendezvous
