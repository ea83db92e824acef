// Two connected sockets of this process.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "core/net/wait.hpp"

namespace ddl::test {

struct SocketPair {
  Socket a, b;
  SocketPair() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    a = Socket(ends[0]);
    b = Socket(ends[1]);
  }
};

inline void write(const Socket& socket, const void* data, std::size_t bytes) {
  iovec piece = piece_of(data, bytes);
  EXPECT_EQ(socket.send({&piece, 1}), static_cast<long>(bytes));
}

}  // namespace ddl::test
