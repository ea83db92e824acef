// Transport: how messages travel on one fabric. Messages are small enough to be staged whole, are delivered
// at most once and in any order; who they are for is in the header.
//
// Thread safety: none; the engine's lock is held around every call. Nothing here blocks.
// Flow control: of each collective a sender is at most a window of segments ahead of a receiver, and ahead by
// a bounded number of collectives (see operation.hpp, communicator.hpp), which bounds early arrivals; `send`
// answers false where staging or a mailbox is full, and the caller comes again.
#pragma once

#include <array>
#include <cstring>
#include <span>
#include <string>

#include "core/base/types.hpp"

namespace ddl {

/// Travels in front of every message. Little-endian; all members of a job run the same engine version
/// (checked when the job is set up).
struct Header {
  CommId comm;
  std::uint64_t tag;      // which message of the segment: Plan's tag
  Seq seq;                // which collective on the communicator
  std::uint32_t segment;  // which segment of it
  // Kind, count, type and op of the call: a mismatch is a program error, reported as such.
  Fingerprint fingerprint;
  Rank from;            // in the communicator
  std::uint32_t bytes;  // of payload
  std::uint32_t turn;   // used by mailboxes; on the wire see tcp_stream.hpp, 0: a message
};
static_assert(sizeof(Header) == 40);
/// In Header::segment, where a call within a host has only one: its sender had finished all earlier calls on
/// the communicator.
inline constexpr std::uint32_t kSenderWasAlone = std::uint32_t{1} << 31;

/// A received payload, lent. Whoever holds it calls release() once; until then the bytes stay where they are.
class View {
 public:
  static constexpr std::size_t kInline = 344;  // fills an entry of a mailbox, see region.hpp
  using Release = void (*)(void* owner, void* token);

  View() = default;
  View(const View& other) { *this = other; }
  View& operator=(const View& other) {  // of what it carries only what is there
    data_ = other.data_;
    bytes_ = other.bytes_;
    release_ = other.release_;
    owner_ = other.owner_;
    token_ = other.token_;
    is_inline_ = other.is_inline_;
    is_elsewhere_ = other.is_elsewhere_;
    if (is_inline_ && this != &other) std::memcpy(inline_.data(), other.inline_.data(), bytes_);
    return *this;
  }
  View(const void* data, Bytes bytes, Release give_back, void* owner, void* token)
      : data_(data), bytes_(bytes), release_(give_back), owner_(owner), token_(token) {}
  /// A payload in the memory of its sender's process, which is not to be looked at but fetched from there.
  static View elsewhere(Bytes address, Bytes bytes, Release give_back, void* owner, void* token) {
    View view(reinterpret_cast<const void*>(address), bytes, give_back, owner, token);
    view.is_elsewhere_ = true;
    return view;
  }
  /// A tiny payload, carried in the view itself.
  static View copy_of(const void* data, Bytes bytes) {
    View view;
    view.bytes_ = bytes;
    std::memcpy(view.inline_.data(), data, bytes);
    view.is_inline_ = true;
    return view;
  }

  bool is_elsewhere() const { return is_elsewhere_; }
  const void* data() const { return is_inline_ ? inline_.data() : data_; }
  Bytes bytes() const { return bytes_; }
  void release() {
    if (release_) release_(owner_, token_);
    release_ = nullptr;
  }
  /// Who lent the payload gets it back in another way; nothing is left to release.
  void give_up() { release_ = nullptr; }
  bool is_released_by(Release give_back) const { return release_ == give_back; }
  void* token() const { return token_; }
  void* owner() const { return owner_; }

 private:
  const void* data_ = nullptr;
  Bytes bytes_ = 0;
  Release release_ = nullptr;
  void* owner_ = nullptr;
  void* token_ = nullptr;
  bool is_inline_ = false, is_elsewhere_ = false;
  alignas(16) std::array<std::byte, kInline> inline_;
};

/// When a staging block may be written again: when all its readers have said so; or when the sender knows it
/// from the order of its messages and nobody needs to count; or when its receivers have taken the messages;
/// or the block is the receiver's own, who gets it back with this message; or the payload is not in the
/// block, which only counts who has read it.
enum class Reuse : std::uint8_t { when_released, by_agreement, when_taken, by_receiver, elsewhere };

/// Whether who sends can wait until its receivers have released older blocks, see StagingPool.
enum class Need : std::uint8_t { can_wait, now };

/// Where a message goes and what its sender must know.
struct Outgoing {
  Header header;
  std::span<const std::byte> payload;
  std::span<const Rank> to;  // ranks in the job; several receivers share one staged copy where the fabric can
  std::uint32_t rail = 0;    // between hosts
  std::byte* block = nullptr;           // within a host: where the payload is staged; null: in any free block
  Reuse reuse = Reuse::when_released;   // of that block
  Need need = Need::can_wait;           // of a free block
  std::uint32_t turns = 1;              // so many of that size the call has under way at once
  bool is_joint = false;                // read where it is, and its sender takes part, see JointCopy
  std::uint32_t* unfinished = nullptr;  // counts sends that still read `payload`; falls as they complete
};

/// A message that came before anybody could use it, kept for later.
struct Early {
  Header header;
  View view;
};

/// Receives what a transport delivers.
class MessageHandler {
 public:
  virtual ~MessageHandler() = default;
  virtual void deliver(const Header& header, const View& view) = 0;
  /// Where the payload of a message that is arriving can be written at once, because that is all that will
  /// be done with it; null: nowhere. It is delivered as a view on that place when it is there.
  virtual std::byte* place_for(const Header& header) {
    (void)header;
    return nullptr;
  }
  /// Whether that rank of the job sends such messages, as far as is known; asked of each that comes.
  virtual bool may_come_from(Rank sender, const Header& header) {
    (void)sender, (void)header;
    return true;
  }
  /// What was to be written there will come again, another way.
  virtual void leave_place(const Header& header) { (void)header; }
  virtual void peer_failed(Rank peer, const std::string& why) = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  /// False: no room now, nothing was sent, come again after progress().
  virtual bool send(const Outgoing& message) = 0;
  /// Counts in `unfinished` until all that was sent to these ranks of the job has left this process:
  /// afterwards it arrives without progress() here. Others may be outside MPI and read nothing.
  virtual void flush(std::span<const Rank> to, std::uint32_t& unfinished) { (void)to, (void)unfinished; }
  /// Whether that rank of the job is known to read nothing any more: to send to it would fail.
  virtual bool has_left(Rank rank) const {
    (void)rank;
    return false;
  }
  /// Messages to one peer may be held back to travel together: hands on those to whom so many bytes have
  /// gathered. progress() does it too. True when any left.
  virtual bool push(Bytes at_least) {
    (void)at_least;
    return false;
  }
  /// This rank takes no part any more, and nothing else is called but this: tells those whom it has sent to,
  /// and why. Again until what was under way before has left, too.
  virtual void say_failed(const std::string& why) { (void)why; }
  /// Moves what can move; true when anything did.
  virtual bool progress(MessageHandler& handler) = 0;
  /// A descriptor that poll() finds readable when progress() has something to do; -1: there is none.
  virtual int wake_fd() const { return -1; }
};

}  // namespace ddl
