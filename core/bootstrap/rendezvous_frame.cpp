#include "core/bootstrap/rendezvous_frame.hpp"

#include <algorithm>
#include <cstring>

namespace ddl::rendezvous {

PackedFrame pack_text(FrameKind kind, const std::string& text) {
  return pack_frame(kind,
                    std::as_bytes(std::span(text.data(), std::min<std::size_t>(text.size(), kMaxText))));
}

PackedFrame pack_all(const std::vector<std::vector<std::byte>>& blobs) {
  std::vector<std::uint64_t> lengths;
  for (const auto& blob : blobs) lengths.push_back(blob.size());
  FramePieces pieces = {std::as_bytes(std::span(lengths))};
  pieces.insert(pieces.end(), blobs.begin(), blobs.end());
  return pack_frame(Kind::all, pieces);
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

}  // namespace ddl::rendezvous
