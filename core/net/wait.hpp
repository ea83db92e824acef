// Waiting for sockets: for one or for several by poll, for many by epoll.
//
// Thread safety: none, values of one thread.
#pragma once

#include <poll.h>
#include <sys/epoll.h>

#include <array>
#include <span>
#include <vector>

#include "core/base/types.hpp"
#include "core/net/socket.hpp"

namespace ddl {

/// A limit on waiting that counts only time in which this process ran: one that was stopped or suspended for
/// minutes must not accuse the others. It has to be asked at least twice a second to count fully.
class Timeout {
 public:
  explicit Timeout(double seconds);
  bool is_over();
  /// Milliseconds until it should be asked again.
  int nap() const;

 private:
  Nanoseconds left_, asked_;
};

/// What is waited for. Whoever is broken or closed is ready for all of it.
enum class Ready : short { broken = 0, read = POLLIN, write = POLLOUT, either = POLLIN | POLLOUT };

class PollSet {
 public:
  /// A closed one is never ready.
  void add(const FileDescriptor& one, Ready what) {
    polled_.push_back({one.fd(), static_cast<short>(what), 0});
  }
  /// Waits so many milliseconds, or without end if negative; whether any is ready.
  bool wait(int milliseconds);
  /// Of the one that was added as that.
  bool is_ready(std::size_t index) const { return polled_[index].revents != 0; }

 private:
  std::vector<pollfd> polled_;
};

/// False when the time is over.
bool wait_until(const FileDescriptor& one, Ready what, Timeout& timeout);

/// Descriptors that are watched until they are forgotten, or closed with all their duplicates. It has one
/// itself, which is readable when one of them has something to say.
class EventSet {
 public:
  /// Throws Error where the kernel gives none.
  EventSet();
  int fd() const { return epoll_.fd(); }
  /// `events` of epoll. Throws Error where that is impossible.
  void watch(const FileDescriptor& one, std::uint32_t events, std::uint64_t key);
  void forget(const FileDescriptor& one);
  /// What has happened, without waiting; its data.u64 is the key. Valid until it is asked again.
  std::span<const epoll_event> look();

 private:
  FileDescriptor epoll_;
  std::array<epoll_event, 32> events_;
};

}  // namespace ddl
