// The two ends of a direction of a connection: OutStream writes messages, InStream reads them. Who has been
// connected to may answer on the same connection, see tcp_accept.cpp.
//
//   connection := hello frame* farewell
//   hello      := magic:u64 token:u64 rank:u32 epoch:u32  token: of the listening rail, from its address;
//                                                         epoch: how often its writer has lost that rail
//   frame      := message | lost | gone | again frame
//   message    := Header payload                          Header.turn = 0
//   lost       := Header                                  turn = 2, tag: rail, seq: epoch. What was sent on
//                                                         it and did not come follows here
//   gone       := Header                                  turn = 4, from: a rank of the job. The writer ends
//                                                         because that one has failed
//   again      := Header                                  turn = 3, tag: number of the frame that follows, on
//                                                         the rail `from` with the epoch seq; bytes: its own
//   farewell   := Header                                  turn = 1. An end without it is a failure. Who has
//                                                         sent nothing says it without a hello
//
// Frames are numbered from 1. Who wants to send what was lost again keeps a copy until the reader's kernel
// has acknowledged it.
//
// Ownership: a payload that the kernel has not taken is read from its owner's memory until `unfinished`
// falls; only small ones are copied. Thread safety: none.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "core/net/socket.hpp"
#include "core/net/wait.hpp"
#include "core/transport/ended_streams.hpp"
#include "core/transport/lost_rails.hpp"
#include "core/transport/receive_pool.hpp"
#include "core/transport/sent_bytes.hpp"
#include "core/transport/transport.hpp"

namespace ddl {

struct Hello {
  static constexpr std::uint64_t kMagic = 0x3170'6374'6c64'640a;
  std::uint64_t magic = kMagic;
  std::uint64_t token = 0;
  std::uint32_t rank = 0;
  std::uint32_t epoch = 0;
};
static_assert(sizeof(Hello) == 24);

/// How a stream stands. `left`: the peer said farewell; `broken`: it did not, see why().
enum class StreamState : std::uint8_t { open, left, broken };

/// What a reader must know of other streams of the same writer.
class LostStreams {
 public:
  virtual ~LostStreams() = default;
  /// Nothing more comes there; what did come has to be taken first.
  virtual void lost(const LostStream& stream, Loss loss) = 0;
  /// The writer ends because another rank has failed.
  virtual void gone(Rank says, Rank who, std::string_view why) = 0;
  /// Whether that frame of it did not come.
  virtual bool lacks(const LostStream& stream, std::uint64_t frame) const = 0;
  /// Whether it has been lost, so that what may still come there is not wanted.
  virtual bool is_over(const LostStream& stream) const = 0;
  /// Now it has.
  virtual void took(const LostStream& stream, std::uint64_t frame) = 0;
};

/// Whether a writer can send again what was lost.
enum class Keeps : std::uint8_t { nothing, unacknowledged };

/// Who hears of a writer's reader: the OutStream itself, for which the other end has nothing but a farewell,
/// or an InStream on the same connection, which says so with ended().
enum class Hears : std::uint8_t { itself, through_partner };

class OutStream {
 public:
  static constexpr Bytes kCopied = 256;  // payloads up to this size are copied where they have to wait

  /// `socket` may still be connecting. Says hello first.
  OutStream(Socket socket, const Hello& hello, Keeps keeps = Keeps::nothing, Hears hears = Hears::itself);

  const Socket& socket() const { return socket_; }
  /// Of its hello.
  std::uint32_t epoch() const { return epoch_; }
  StreamState state() const { return state_; }
  const std::string& why() const { return why_; }
  /// It broke because nobody answers.
  bool is_silent() const { return is_silent_; }
  bool idle() const { return first_ == queue_.size(); }
  /// The kernel has taken something: it is connected.
  bool has_begun() const { return taken_ > 0; }
  /// Something waits for a push, and not for the kernel.
  bool is_gathering() const { return waiting_ > 0 && !is_blocked_; }

  /// Puts a message behind those that wait; it leaves with push() or wake(), at once where a lot waits. Where
  /// the stream has broken it waits for take_over().
  void send(const Header& header, std::span<const std::byte> payload, std::uint32_t& unfinished);
  /// Hands what waits to the kernel if that many bytes have gathered; true when it took any.
  bool push(Bytes at_least);
  /// Counts in `unfinished` until all that was sent so far is the kernel's.
  void flush(std::uint32_t& unfinished);
  /// The socket may take bytes again, or has something to say; true when bytes moved.
  bool wake();
  /// What its partner has found.
  void ended(StreamState state, const std::string& why, bool is_silent);
  /// Fails when the peer's machine has left the attempts of the last seconds unanswered: so many in a row.
  void listen_for_silence(int tries);
  /// Sends all of `other` that may not have come: its `rail` and epoch tell the reader which stream it was.
  void take_over(OutStream& other, std::size_t rail, Loss loss);
  /// Tells the reader because of whom the writer ends, and why where that is itself.
  void say_gone(Rank who, std::string_view why = {});
  /// Tells the reader that nothing comes on that rail.
  void say_lost(std::size_t rail, std::uint32_t epoch, Loss loss);
  /// The reader's kernel has that many bytes; so many more are waiting or under way.
  Bytes acknowledged() const { return taken_ - socket_.unacknowledged(); }
  Bytes backlog() const { return waiting_ + socket_.unacknowledged(); }
  /// Forgets what waits and what was kept, and ends the connection at once.
  void hang_up();
  /// Forgets what waits (nothing counts any more) and says farewell if it can; whether it has.
  bool close();

 private:
  struct Frame {
    Frame() {}  // leaves `head` as it is
    std::array<std::byte, sizeof(Header) + kCopied> head;
    std::size_t head_bytes = 0, head_done = 0, rest_done = 0;
    std::span<const std::byte> rest;      // in its owner's memory
    std::uint32_t* unfinished = nullptr;  // falls when the frame is gone
    bool is_done() const { return head_done == head_bytes && rest_done == rest.size(); }
    bool is_empty() const { return head_bytes == 0; }
  };
  Frame& append();
  void append_header(const Header& header);
  void append_frame(Header header, std::vector<std::byte> rest);
  bool drain();
  void advance(std::size_t bytes);
  void listen();
  void fail(int error);

  Socket socket_;
  const std::uint32_t epoch_;
  std::vector<Frame> queue_;
  std::size_t first_ = 0;
  Bytes waiting_ = 0;  // bytes of messages in the queue
  Bytes taken_ = 0;    // bytes that the kernel took, in all
  const Keeps keeps_;
  const Hears hears_;
  SentBytes sent_;
  std::vector<std::vector<std::byte>> own_bytes_;  // that frames point to, until the queue is empty
  bool is_blocked_ = false;                        // the kernel took no more, and will say when it does
  StreamState state_ = StreamState::open;
  std::string why_;
  bool is_silent_ = false;
};

class InStream {
 public:
  /// `partner`: whom an OutStream on the same connection writes to; -1: there is none.
  explicit InStream(Socket socket, std::size_t rail, Rank partner = -1)
      : socket_(std::move(socket)), rail_(rail), partner_(partner) {}
  ~InStream();
  InStream(const InStream&) = delete;
  InStream& operator=(const InStream&) = delete;

  const Socket& socket() const { return socket_; }
  StreamState state() const { return state_; }
  const std::string& why() const { return why_; }
  /// It broke because nobody answers.
  bool is_silent() const { return is_silent_; }
  std::size_t rail() const { return rail_; }
  /// Who writes; -1 before the hello.
  Rank from() const { return from_; }
  std::uint32_t epoch() const { return epoch_; }
  Rank partner() const { return partner_; }
  /// From now on an OutStream answers on its connection.
  void is_answered() { partner_ = from_; }
  /// The number of the next frame.
  std::uint64_t next_frame() const { return next_frame_; }

  /// Reads once and delivers what is complete; true when bytes came. `expected` is the hello of this rail
  /// with the number of ranks in the place of the rank; another one breaks the stream.
  bool receive(const Hello& expected, ReceivePool& pool, MessageHandler& handler, LostStreams& others);
  /// In the middle of receive().
  bool is_reading() const { return is_reading_; }
  /// A message that has begun to come will not be whole.
  void abandon(MessageHandler& handler);
  /// Says farewell backwards, unless it has a partner: that one has done so, or could not.
  void close();
  /// Before that, where the partner has: waits until the other end's kernel has all that was sent. If
  /// anything is unread, or comes later, when a connection is closed, the kernel drops what it has not sent.
  void let_partner_leave(Timeout& patience);

 private:
  static constexpr Bytes kStage = 16 << 10;   // small messages are read many at once, and copied from here
  static constexpr Bytes kAhead = 512;        // read behind a large payload: the next header, not much more
  static constexpr Bytes kLargest = 1 << 30;  // more than that is no message
  static constexpr std::uint32_t kReadsPerWish = 8;  // for delayed acknowledgements

  long read(Bytes& into_block);
  void parse(const Hello& expected, ReceivePool& pool, MessageHandler& handler, LostStreams& others);
  bool parse_hello(const Hello& expected, const LostStreams& others);
  bool parse_frame(ReceivePool& pool, MessageHandler& handler, LostStreams& others);
  void parse_again(const LostStreams& others);
  void note_frame(LostStreams& others);
  void take_payload(ReceivePool& pool, MessageHandler& handler, LostStreams& others);
  void skip();
  void deliver(MessageHandler& handler, LostStreams& others);
  bool leave();
  void fail(const std::string& why);

  Socket socket_;
  std::size_t rail_;
  Rank partner_;
  Rank from_ = -1;
  StreamState state_ = StreamState::open;
  std::string why_;
  bool is_silent_ = false;
  std::uint32_t reads_ = 0;
  Header header_{};             // of the payload under way
  std::byte* block_ = nullptr;  // where it goes; null between messages
  bool is_reading_ = false;
  bool is_pooled_ = false;  // or at its place in the message handler
  ReceivePool* pool_ = nullptr;
  Bytes filled_ = 0;
  Bytes to_skip_ = 0;  // of a frame that has come before
  std::uint32_t epoch_ = 0;
  std::uint64_t next_frame_ = 1;
  std::vector<std::pair<LostStream, std::uint64_t>> again_;  // what the message under way stands for
  Bytes at_ = 0, have_ = 0;  // what stage_ holds and is not parsed: [at_, have_)
  alignas(64) std::array<std::byte, kStage> stage_;
};

}  // namespace ddl
