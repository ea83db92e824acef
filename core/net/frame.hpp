// Framed messages over a socket, read and written without ever blocking. What the kinds are and what their
// payload holds is up to who uses them.
//
//   frame = magic u32, kind u32, length u64, payload[length]      in the order of the machine
//
// Thread safety: none, values of one thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/types.hpp"
#include "core/net/socket.hpp"

namespace ddl {

enum class FrameKind : std::uint32_t {};

struct FrameHead {
  std::uint32_t magic;
  FrameKind kind;
  std::uint64_t length;
};

struct Frame {
  FrameKind kind{};
  std::vector<std::byte> payload;
  std::string text() const { return {reinterpret_cast<const char*>(payload.data()), payload.size()}; }
  /// The payload as a plain value; nothing where it has another size.
  template <class Value>
  std::optional<Value> as() const {
    if (payload.size() != sizeof(Value)) return std::nullopt;
    Value value;
    std::copy(payload.begin(), payload.end(), reinterpret_cast<std::byte*>(&value));
    return value;
  }
};

/// A frame as it travels; many receivers may share it.
using PackedFrame = std::shared_ptr<const std::vector<std::byte>>;
using FramePieces = std::vector<std::span<const std::byte>>;
PackedFrame pack_frame(FrameKind kind, std::span<const std::byte> payload = {});
/// Of a payload that lies in several places.
PackedFrame pack_frame(FrameKind kind, const FramePieces& payload);
template <class Value>
PackedFrame pack_value(FrameKind kind, const Value& value) {
  return pack_frame(kind, std::as_bytes(std::span(&value, 1)));
}

/// Reads frames as their bytes come. Memory grows with what has come, not with what a head promises.
class FrameReader {
 public:
  enum class State { waiting, complete, ended, garbage };
  /// Frames longer than that are garbage.
  explicit FrameReader(Bytes longest) : longest_(longest) {}
  void allow(Bytes longest) { longest_ = longest; }
  /// Reads until a frame is complete or nothing more is there. Every complete frame must be taken.
  State read(const Socket& socket);
  Frame take();

 private:
  static std::optional<State> fill(const Socket& socket, std::vector<std::byte>& into, std::size_t wanted);
  Bytes longest_;
  std::vector<std::byte> head_;
  Frame frame_;
};

class FrameWriter {
 public:
  void add(PackedFrame frame) { queue_.push_back(std::move(frame)); }
  bool empty() const { return queue_.empty(); }
  /// Writes what the socket takes. False when the connection is broken.
  bool write(const Socket& socket);

 private:
  std::deque<PackedFrame> queue_;
  std::size_t written_ = 0;  // of the first
};

}  // namespace ddl
