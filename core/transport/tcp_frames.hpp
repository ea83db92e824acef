// What the two ends of a stream share: the kinds of frames, and the farewell.
#pragma once

#include <cstring>

#include "core/net/socket.hpp"
#include "core/transport/transport.hpp"

namespace ddl::tcp {

inline constexpr Bytes kMostOfWhy = 512;  // of the text that follows kGone

enum Turn : std::uint32_t { kMessage, kFarewell, kLost, kAgain, kGone };  // in Header::turn

inline Header farewell() {
  Header header{};
  header.turn = kFarewell;
  return header;
}

// With anything else in it it is no farewell: the stream has lost its place.
inline bool is_farewell(const Header& header) {
  const Header expected = farewell();
  return std::memcmp(&header, &expected, sizeof(header)) == 0;
}

inline void say_farewell(const Socket& socket) {
  Header header = farewell();
  iovec piece = piece_of(&header, sizeof(header));
  socket.send({&piece, 1});  // who does not hear it reports that we are gone, which is true
}

}  // namespace ddl::tcp
