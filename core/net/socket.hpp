// TCP sockets that never block and are closed on exec.
//
// Ownership: a Socket owns its descriptor. Thread safety: none needed, values.
#pragma once

#include <sys/uio.h>

#include <cerrno>
#include <span>
#include <string>
#include <utility>

#include "core/base/clock.hpp"
#include "core/net/address.hpp"

namespace ddl {

class Timeout;

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() { close(); }
  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  /// Leaves errno as it is.
  void close();

 private:
  int fd_ = -1;
};

/// A piece of memory that is sent from or received into.
inline iovec piece_of(const void* data, std::size_t bytes) { return {const_cast<void*>(data), bytes}; }

class Socket : public FileDescriptor {
 public:
  using FileDescriptor::FileDescriptor;
  static constexpr long kNotNow = -EAGAIN;

  /// One system call: how many bytes of these pieces the kernel took, or the error as a negative number:
  /// kNotNow where it takes none now.
  long send(std::span<iovec> pieces) const;
  /// One system call: how many bytes came, 0 when the other end has closed, or as above.
  long receive(std::span<iovec> pieces) const;
  /// Why it is broken, which is also how connecting ended; 0: it is not.
  int error() const;
  /// Asks the kernel to acknowledge what comes with what goes back, or else two messages at once: otherwise
  /// each small one that is read is acknowledged by a packet of its own. It forgets this whenever for some 40
  /// ms nothing went back.
  void delay_acknowledgements() const;
  /// Asks it to acknowledge at once what has come.
  void acknowledge() const;
  /// How often in a row the kernel has sent the same bytes, or asked for room, without an answer.
  int unanswered_tries() const;
  /// Bytes that the kernel took and the other end's kernel has not acknowledged.
  std::size_t unacknowledged() const;
  /// Nanoseconds that sending has waited for the other end to read, in all.
  Nanoseconds waited_for_reader() const;
  /// Another descriptor of the same connection, closed where there is none left. The connection ends with the
  /// last one.
  Socket duplicate() const;
  /// The address of the other end; family 0 where there is none.
  IpAddress remote() const;
  /// Ends the connection, also for the copies that forked children hold. What has come can still be read.
  void shut_down() const;
  /// The same, and closes it.
  void hang_up();
  /// Closes it and drops what has not been sent.
  void reset();
};

/// Whether the interface is up and its link carries; true where nobody knows.
bool is_running(const std::string& interface);

// Where these cannot make a socket they return a closed one, and errno says why.

/// Listens on that port of that address, 0: any free one, which is written there; on all addresses where it
/// is none.
Socket listen_on(Endpoint& local);
/// Takes a connection that waits.
Socket accept_from(const Socket& listener);
/// Begins to connect; the socket is writable when that has ended. It leaves from that address, if it is one,
/// so that its bytes go over that rail.
Socket start_connecting(const Endpoint& to, const IpAddress& from = {});
/// Waits until it is connected.
Socket connect_to(const Endpoint& to, Timeout timeout);

/// What this process writes to a connection with that other end leaves at once, whoever has made it, without
/// waiting for the acknowledgement of what was written before.
void send_at_once_to(const Endpoint& other_end);

}  // namespace ddl
