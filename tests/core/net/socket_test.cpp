#include "core/net/socket.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <numeric>

#include "core/base/clock.hpp"
#include "core/net/wait.hpp"
#include "tests/support/patience.hpp"
#include "tests/support/socket_pair.hpp"

namespace ddl {
namespace {

using test::SocketPair;

using test::kLong_s;
constexpr const char* kHere = "127.0.0.1";

long read_into(const Socket& socket, std::span<char> memory) {
  iovec piece = piece_of(memory.data(), memory.size());
  return socket.receive({&piece, 1});
}

bool leaves_at_once(const Socket& socket) {
  int value = -1;
  socklen_t bytes = sizeof(value);
  EXPECT_EQ(::getsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &value, &bytes), 0);
  return value != 0;
}

void let_it_wait(const Socket& socket) {
  const int off = 0;
  ASSERT_EQ(::setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &off, sizeof(off)), 0);
}

}  // namespace

TEST(Socket, WhatIsWrittenInPiecesIsReadInOtherPieces) {
  SocketPair pair;
  std::string first = "abc", second = "defgh";
  iovec out[] = {piece_of(first.data(), 3), piece_of(nullptr, 0), piece_of(second.data(), 5)};
  EXPECT_EQ(pair.a.send(out), 8);
  char one[2], two[9];
  iovec in[] = {piece_of(one, sizeof(one)), piece_of(two, sizeof(two))};
  EXPECT_EQ(pair.b.receive(in), 8) << "no more than has come";
  EXPECT_EQ(std::string(one, 2) + std::string(two, 6), "abcdefgh");
  EXPECT_EQ(pair.b.receive(in), Socket::kNotNow);
}

TEST(Socket, AFullOneTakesAPartAndThenNothingAndNeverWaits) {
  SocketPair pair;
  std::vector<char> large(16 << 20), back(large.size());
  std::iota(large.begin(), large.end(), char{});
  std::size_t sent = 0, got = 0;
  for (long bytes = 0; bytes != Socket::kNotNow; sent += static_cast<std::size_t>(std::max(bytes, 0L))) {
    iovec rest = piece_of(large.data() + sent, large.size() - sent);
    bytes = pair.a.send({&rest, 1});
    ASSERT_TRUE(bytes > 0 || bytes == Socket::kNotNow) << bytes;
  }
  EXPECT_LT(sent, large.size());
  for (long bytes = 0; (bytes = read_into(pair.b, std::span(back).subspan(got, 1000))) > 0;)
    got += static_cast<std::size_t>(bytes);
  EXPECT_EQ(got, sent);
  EXPECT_TRUE(std::equal(back.begin(), back.begin() + static_cast<std::ptrdiff_t>(got), large.begin()));
}

TEST(Socket, APeerThatClosesIsTheEndForWhoReadsAndAnErrorForWhoWrites) {
  SocketPair pair;
  test::write(pair.a, "x", 1);
  pair.a.close();
  char memory[4];
  EXPECT_EQ(read_into(pair.b, memory), 1) << "what came before can be read";
  EXPECT_EQ(read_into(pair.b, memory), 0);
  iovec piece = piece_of("y", 1);
  EXPECT_EQ(pair.b.send({&piece, 1}), -EPIPE) << "and no SIGPIPE";
}

TEST(Socket, HangingUpEndsTheConnectionOfCopiesTooAndClosingDoesNot) {
  SocketPair pair;
  char memory[4];
  Socket inherited(::dup(pair.a.fd()));  // as a forked child has it
  Socket another(::dup(pair.a.fd()));
  pair.a.close();
  EXPECT_EQ(read_into(pair.b, memory), Socket::kNotNow);
  inherited.hang_up();
  EXPECT_FALSE(inherited.is_open());
  EXPECT_EQ(read_into(pair.b, memory), 0);
}

TEST(Socket, ConnectsAndAcceptsOverBothFamilies) {
  for (const char* address : {kHere, "::1", ""}) {
    Endpoint local{parse_address(address)};
    Socket listener = listen_on(local);
    if (!listener.is_open() && std::string(address) == "::1") continue;  // a host without IPv6
    ASSERT_TRUE(listener.is_open()) << address;
    EXPECT_FALSE(accept_from(listener).is_open());
    EXPECT_EQ(errno, EAGAIN);
    Endpoint remote{parse_address(*address ? address : kHere), local.port};
    Socket client = connect_to(remote, Timeout(kLong_s));
    ASSERT_TRUE(client.is_open()) << address;
    Timeout timeout(kLong_s);
    ASSERT_TRUE(wait_until(listener, Ready::read, timeout));
    Socket server = accept_from(listener);
    test::write(server, "x", 1);
    EXPECT_TRUE(wait_until(client, Ready::read, timeout));
    char memory[4];
    EXPECT_EQ(read_into(client, memory), 1);
    EXPECT_EQ(client.error(), 0);
  }
}

TEST(Socket, AConnectionLeavesFromTheAddressThatIsAskedFor) {
  Endpoint local{parse_address(kHere)};
  Socket listener = listen_on(local);
  Socket client = start_connecting(local, parse_address("127.0.0.9"));
  Timeout timeout(kLong_s);
  ASSERT_TRUE(wait_until(client, Ready::write, timeout));
  EXPECT_EQ(client.error(), 0);
  sockaddr_storage name{};
  socklen_t bytes = sizeof(name);
  ASSERT_EQ(::getsockname(client.fd(), reinterpret_cast<sockaddr*>(&name), &bytes), 0);
  EXPECT_EQ(reinterpret_cast<unsigned char*>(&name)[7], 9);
}

TEST(Socket, WhyItCannotConnectIsTold) {
  Endpoint gone{parse_address(kHere)};
  listen_on(gone).close();
  EXPECT_FALSE(connect_to(gone, Timeout(kLong_s)).is_open());
  EXPECT_EQ(errno, ECONNREFUSED);
  EXPECT_FALSE(start_connecting({parse_address("nowhere"), 1}).is_open());
  EXPECT_EQ(errno, EAFNOSUPPORT);
  EXPECT_FALSE(start_connecting({parse_address("::1"), 1}, parse_address(kHere)).is_open());
  EXPECT_EQ(errno, EAFNOSUPPORT);
  EXPECT_FALSE(start_connecting(gone, parse_address("192.0.2.1")).is_open());
  EXPECT_EQ(errno, EADDRNOTAVAIL);
  Endpoint elsewhere{parse_address("192.0.2.1")};
  EXPECT_FALSE(listen_on(elsewhere).is_open());
  EXPECT_EQ(errno, EADDRNOTAVAIL);
}

TEST(Socket, ConnectingEndsWithTheTimeWhereNobodyAnswers) {
  // A listener whose queue is full lets further connections wait in silence.
  Endpoint local{parse_address(kHere)};
  Socket full = listen_on(local);
  ASSERT_EQ(::listen(full.fd(), 0), 0);
  std::vector<Socket> waiting;
  for (int i = 0; i < 4; ++i) waiting.push_back(start_connecting(local));
  Nanoseconds began = now();
  EXPECT_FALSE(connect_to(local, Timeout(0.2)).is_open());
  EXPECT_EQ(errno, ETIMEDOUT);
  EXPECT_GE(now() - began, 150'000'000);
  EXPECT_LT(now() - began, 10'000'000'000);
}

TEST(Socket, ConnectionsOfOthersLeaveAtOnceByTheirOtherEnd) {
  Endpoint here{parse_address(kHere)}, there{parse_address(kHere)};
  const Socket listener = listen_on(here), other_listener = listen_on(there);
  const Socket one = connect_to(here, Timeout(kLong_s)), other = connect_to(there, Timeout(kLong_s));
  let_it_wait(one);
  let_it_wait(other);
  send_at_once_to(here);
  EXPECT_TRUE(leaves_at_once(one));
  EXPECT_FALSE(leaves_at_once(other));
}

}  // namespace ddl
