// Region: the shared memory of one rank, read and written by the ranks of its host.
//
// Layout, all offsets from the start:
//   RegionHead                 nonce, doorbell, what the owner is doing
//   mailboxes                  one ring of descriptors per sender, by the sender's local rank
//   staging                    blocks, see StagingPool: BlockHead, then payload
//
// It is a memfd: it has no name, so nothing can be left behind; peers open it through /proc/<pid>/fd, which
// the kernel allows to the same user only, and compare the nonce. Its size is virtual; pages are taken (and
// counted against the limit) when blocks are made, with fallocate, so that a full machine is an error and not
// a SIGBUS.
#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "core/base/partition.hpp"
#include "core/base/types.hpp"
#include "core/trace/activity.hpp"
#include "core/transport/joint_copy.hpp"
#include "core/transport/transport.hpp"

namespace ddl {

// Flag, header and up to 24 bytes of payload share one cache line: a tiny message is one line that moves.
struct alignas(64) Descriptor {
  static constexpr std::size_t kInFirstLine = kCacheLine - sizeof(Header);
  Header header;  // its turn is n + 1 when entry n of the ring is full: written last
  union {
    std::byte payload[View::kInline];
    struct {
      Bytes block;    // of a longer payload: offset of the BlockHead in the sender's region
      Bytes address;  // in the sender's memory, of a payload that is read there
    };
  };
  std::atomic_ref<std::uint32_t> turn() { return std::atomic_ref(header.turn); }
};
static_assert(sizeof(Descriptor) == 6 * kCacheLine);

// Its entries follow it. Where few ranks share a host each has room for View::kInline bytes of payload: a
// reader that learns from the entry where the payload is waits for both, one after the other (2 ranks, 128
// and 256 bytes, all-to-all with a barrier before each 0.24 and 0.25 us, so 0.20 and 0.22; broadcasts one
// after the other 0.17 and 0.18, 0.10 and 0.11). And whole pairs of lines lie between the first lines of two
// entries: of 32 and 64 bytes 0.21, so 0.18. Of many ranks each would have a megabyte of mailboxes.
struct alignas(64) Mailbox {
  static constexpr std::uint32_t kEntries = 128;
  static constexpr int kFewRanks = 16;
  static constexpr Bytes entry_bytes(int local_ranks) {
    return local_ranks <= kFewRanks ? sizeof(Descriptor) : 2 * kCacheLine;
  }
  static constexpr Bytes bytes(int local_ranks) {
    return sizeof(Mailbox) + kEntries * entry_bytes(local_ranks);
  }

  std::atomic<std::uint32_t> taken;  // written by the receiver: entries taken so far

  Descriptor& entry(std::uint32_t number, Bytes entry_bytes) {
    auto* first = reinterpret_cast<std::byte*>(this + 1);
    return *reinterpret_cast<Descriptor*>(first + number % kEntries * entry_bytes);
  }
};

struct alignas(64) BlockHead {
  std::atomic<std::uint32_t> readers;  // receivers that have not released the payload yet
  // See SingleCopySends; `through`: readers that have let go, a bit for each of the first places.
  std::atomic<std::uint32_t> refused;
  std::atomic<std::uint64_t> through;
  JointCopy joint;
};
static_assert(sizeof(BlockHead) == kCacheLine);

struct RegionHead {
  std::uint64_t nonce;
  std::uint64_t base;  // where the owner has mapped it
  // The owner has failed: its program has the buffers back, so what is read there is not what was sent.
  std::atomic<std::uint32_t> withdrawn;
  alignas(64) std::atomic<std::uint32_t> bell;  // rung by peers when the owner sleeps
  std::atomic<std::uint32_t> sleeping;
  Activity activity;
};

class Region {
 public:
  /// Own region, for `local_ranks` senders and, behind their mailboxes, `staging` bytes. Throws Error.
  static Region create(int local_ranks, Bytes staging, std::uint64_t nonce);
  /// A peer's region on the same host, and its bell where it has one; nothing if they cannot be opened or are
  /// others'.
  static std::optional<Region> attach(int pid, int fd, std::uint64_t nonce, int bell = -1);

  Region(Region&& other) noexcept;
  Region& operator=(Region&&) = delete;
  ~Region();

  /// Of all regions of this process, its own and those of peers.
  static Bytes all_mapped();

  int fd() const { return fd_; }
  Bytes bytes() const { return bytes_; }
  /// An owner that sleeps on sockets is woken through a descriptor and not through the futex of RegionHead.
  /// To be opened before peers attach.
  void open_bell();
  bool has_bell() const { return bell_to_ring_ >= 0; }
  /// Readable when rung since it was last silenced; -1 in a peer's region.
  int bell() const { return bell_; }
  void ring_bell();
  void silence_bell();
  RegionHead& head() const { return *reinterpret_cast<RegionHead*>(base_); }
  Mailbox& mailbox(int sender, int local_ranks) {
    return *reinterpret_cast<Mailbox*>(base_ + round_head() +
                                       static_cast<Bytes>(sender) * Mailbox::bytes(local_ranks));
  }
  std::byte* at(Bytes offset) { return base_ + offset; }
  Bytes offset_of(const std::byte* address) const { return static_cast<Bytes>(address - base_); }
  static Bytes staging_offset(int local_ranks) {
    return round_head() + static_cast<Bytes>(local_ranks) * Mailbox::bytes(local_ranks);
  }
  /// Copies from the memory of the process that made the region, with one system call and no copy in between;
  /// false where the kernel does not allow it. Any thread.
  bool read_owner(std::byte* into, const std::byte* from, Bytes bytes) const;
  /// The same to its memory.
  bool write_owner(std::byte* into, const std::byte* from, Bytes bytes) const;
  /// Whether it does.
  bool can_read_owner() const;
  /// Takes the pages of a part of the region; false where the machine has none left.
  bool reserve(Bytes offset, Bytes bytes);
  /// Maps what has been reserved there before it is touched: one system call instead of a fault for each
  /// page. Where the kernel cannot (before Linux 5.14), nothing happens.
  void populate(Bytes offset, Bytes bytes);
  /// Brings that into this core's caches: what is measured of the first calls is to hold for later ones.
  void prefetch(Bytes offset, Bytes bytes) const;

 private:
  Region(std::byte* base, Bytes bytes, int fd, int pid);
  static constexpr Bytes round_head() {
    static_assert(sizeof(RegionHead) <= 4096);
    return 4096;
  }

  std::byte* base_;
  Bytes bytes_;
  int fd_, pid_;
  // A pipe, because peers can open one through /proc like the memory, which they cannot with an eventfd.
  int bell_ = -1, bell_to_ring_ = -1;  // the ends of a pipe
};

}  // namespace ddl
