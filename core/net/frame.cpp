#include "core/net/frame.hpp"

#include <cstring>

namespace ddl {
namespace {

constexpr std::uint32_t kMagic = 0x31766472;
constexpr std::size_t kBite = 256 << 10;

}  // namespace

PackedFrame pack_frame(FrameKind kind, std::span<const std::byte> payload) {
  return pack_frame(kind, FramePieces{payload});
}

PackedFrame pack_frame(FrameKind kind, const FramePieces& payload) {
  FrameHead head{kMagic, kind, 0};
  for (auto piece : payload) head.length += piece.size();
  std::vector<std::byte> bytes;
  bytes.reserve(sizeof(head) + head.length);
  auto add = [&](std::span<const std::byte> piece) { bytes.insert(bytes.end(), piece.begin(), piece.end()); };
  add(std::as_bytes(std::span(&head, 1)));
  for (auto piece : payload) add(piece);
  return std::make_shared<const std::vector<std::byte>>(std::move(bytes));
}

// Nothing when `into` has `wanted` bytes.
std::optional<FrameReader::State> FrameReader::fill(const Socket& socket, std::vector<std::byte>& into,
                                                    std::size_t wanted) {
  while (into.size() < wanted) {
    std::size_t have = into.size();
    into.resize(std::min(wanted, have + kBite));
    iovec rest = piece_of(into.data() + have, into.size() - have);
    long got = socket.receive({&rest, 1});
    into.resize(have + static_cast<std::size_t>(std::max(got, 0L)));
    if (got <= 0) return got == Socket::kNotNow ? State::waiting : State::ended;
  }
  return std::nullopt;
}

FrameReader::State FrameReader::read(const Socket& socket) {
  if (auto state = fill(socket, head_, sizeof(FrameHead))) return *state;
  FrameHead head;
  std::memcpy(&head, head_.data(), sizeof(head));
  if (head.magic != kMagic || head.length > longest_) return State::garbage;
  frame_.kind = head.kind;
  return fill(socket, frame_.payload, head.length).value_or(State::complete);
}

Frame FrameReader::take() {
  head_.clear();
  return std::exchange(frame_, {});
}

bool FrameWriter::write(const Socket& socket) {
  while (!queue_.empty()) {
    const std::vector<std::byte>& bytes = *queue_.front();
    iovec rest = piece_of(bytes.data() + written_, bytes.size() - written_);
    long sent = socket.send({&rest, 1});
    if (sent < 0) return sent == Socket::kNotNow;
    written_ += static_cast<std::size_t>(sent);
    if (written_ < bytes.size()) continue;
    queue_.pop_front();
    written_ = 0;
  }
  return true;
}

}  // namespace ddl
