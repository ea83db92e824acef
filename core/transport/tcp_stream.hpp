// The two ends of a one-way connection: OutStream writes messages, InStream reads them. Each rank connects
// for what it sends, so that two that begin at once need no tie-break.
//
//   connection := hello message* farewell
//   hello      := magic:u64 token:u64 rank:u32 0:u32     token: of the listening rail, from its address
//   message    := Header payload                         Header.turn = 0
//   farewell   := Header                                 Header.turn = 1; also sent backwards by a reader
//                                                        that closes. An end without it is a failure.
//
// Ownership: a payload that the kernel has not taken is read from its owner's memory until `unfinished`
// falls; only small ones are copied. Thread safety: none.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "core/net/socket.hpp"
#include "core/transport/receive_pool.hpp"
#include "core/transport/transport.hpp"

namespace ddl {

struct Hello {
  static constexpr std::uint64_t kMagic = 0x3170'6374'6c64'640a;
  std::uint64_t magic = kMagic;
  std::uint64_t token = 0;
  std::uint32_t rank = 0;
  std::uint32_t zero = 0;
};
static_assert(sizeof(Hello) == 24);

/// How a stream stands. `left`: the peer said farewell; `broken`: it did not, see why().
enum class StreamState : std::uint8_t { open, left, broken };

class OutStream {
 public:
  static constexpr Bytes kCopied = 256;  // payloads up to this size are copied where they have to wait

  /// `socket` may still be connecting. Says hello first.
  OutStream(Socket socket, const Hello& hello);

  const Socket& socket() const { return socket_; }
  StreamState state() const { return state_; }
  const std::string& why() const { return why_; }
  bool idle() const { return first_ == queue_.size(); }
  /// Something waits for a push, and not for the kernel.
  bool is_gathering() const { return waiting_ > 0 && !is_blocked_; }

  /// Puts a message behind those that wait; it leaves with push() or wake(), at once where a lot waits.
  void send(const Header& header, std::span<const std::byte> payload, std::uint32_t& unfinished);
  /// Hands what waits to the kernel if that many bytes have gathered; true when it took any.
  bool push(Bytes at_least);
  /// Counts in `unfinished` until all that was sent so far is the kernel's.
  void flush(std::uint32_t& unfinished);
  /// The socket may take bytes again, or has something to say; true when bytes moved.
  bool wake();
  /// Fails when the peer's machine has left the last half minute of attempts unanswered.
  void listen_for_silence();
  /// Forgets what waits (nothing counts any more) and says farewell if it can.
  void close();

 private:
  struct Frame {
    Frame() {}  // leaves `head` as it is
    std::array<std::byte, sizeof(Header) + kCopied> head;
    std::size_t head_bytes = 0, head_done = 0;
    std::span<const std::byte> rest;      // in its owner's memory
    std::uint32_t* unfinished = nullptr;  // falls when the frame is gone
  };
  Frame& append();
  bool drain();
  void advance(std::size_t bytes);
  void listen();
  void fail(int error);

  Socket socket_;
  std::vector<Frame> queue_;
  std::size_t first_ = 0;
  Bytes waiting_ = 0;        // bytes of messages in the queue
  bool is_blocked_ = false;  // the kernel took no more, and will say when it does
  StreamState state_ = StreamState::open;
  std::string why_;
};

class InStream {
 public:
  explicit InStream(Socket socket, std::size_t rail) : socket_(std::move(socket)), rail_(rail) {}
  ~InStream();
  InStream(const InStream&) = delete;
  InStream& operator=(const InStream&) = delete;

  const Socket& socket() const { return socket_; }
  StreamState state() const { return state_; }
  const std::string& why() const { return why_; }
  std::size_t rail() const { return rail_; }
  /// Who writes; -1 before the hello.
  Rank from() const { return from_; }

  /// Reads once and delivers what is complete; true when bytes came. `expected` is the hello of this rail
  /// with the number of ranks in the place of the rank; another one breaks the stream.
  bool receive(const Hello& expected, ReceivePool& pool, MessageHandler& handler);
  /// Says farewell backwards.
  void close();

 private:
  static constexpr Bytes kStage = 16 << 10;   // small messages are read many at once, and copied from here
  static constexpr Bytes kAhead = 512;        // read behind a large payload: the next header, not much more
  static constexpr Bytes kLargest = 1 << 30;  // more than that is no message

  long read(Bytes& into_block);
  void parse(const Hello& expected, ReceivePool& pool, MessageHandler& handler);
  bool parse_hello(const Hello& expected);
  bool parse_message(ReceivePool& pool, MessageHandler& handler);
  void take_payload(ReceivePool& pool, MessageHandler& handler);
  void deliver(MessageHandler& handler);
  void fail(const std::string& why);

  Socket socket_;
  std::size_t rail_;
  Rank from_ = -1;
  StreamState state_ = StreamState::open;
  std::string why_;
  Header header_{};             // of the payload under way
  std::byte* block_ = nullptr;  // where it goes; null between messages
  bool is_pooled_ = false;      // or at its place in the message handler
  ReceivePool* pool_ = nullptr;
  Bytes filled_ = 0;
  Bytes at_ = 0, have_ = 0;  // what stage_ holds and is not parsed: [at_, have_)
  alignas(64) std::array<std::byte, kStage> stage_;
};

}  // namespace ddl
