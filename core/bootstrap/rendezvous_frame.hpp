// What travels between the ranks of a rendezvous and its server, in frames (core/net/frame.hpp).
//
//   rank   -> server: hello {token, subgroup, rank, size}; join; blob; leave
//   server -> rank:   welcome {limit f64, seconds}; joined; all {length u64 per rank, blobs}; refused, failed
//                     {text}
//
// A rank says hello, hears welcome and joins; until it has joined it can go away unnoticed and try another
// address. Then it sends one blob per round and hears all. A server says nothing to those without the token.
// Thread safety: none, values of one thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/bootstrap/rendezvous_id.hpp"
#include "core/net/frame.hpp"

namespace ddl::rendezvous {

inline constexpr Bytes kMaxBlob = Bytes{16} << 20;
inline constexpr Bytes kMaxText = 4096;

struct Kind {
  static constexpr FrameKind hello{1}, join{2}, blob{3}, leave{4}, welcome{5}, joined{6}, all{7}, refused{8},
      failed{9};
};

struct Hello {
  RendezvousId::Token token;
  std::uint64_t subgroup;
  Rank rank, size;
};

PackedFrame pack_text(FrameKind kind, const std::string& text);
/// An `all` frame of these blobs, and what it holds.
PackedFrame pack_all(const std::vector<std::vector<std::byte>>& blobs);
std::optional<std::vector<std::vector<std::byte>>> unpack_all(const Frame& frame, Rank size);

}  // namespace ddl::rendezvous
