// SharedMemoryTransport: messages between the ranks of one host.
//
// A message is a descriptor in the receiver's mailbox; a payload of more than View::kInline bytes lies in a
// block of the sender's own region, written once and read by all its receivers, which count themselves out of
// the block. Bytes moved per message: one copy in by the sender; the receiver reduces or copies straight from
// the block.
//
// One rule: a block may be written again only when block_is_free() says so.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/base/partition.hpp"
#include "core/transport/region.hpp"
#include "core/transport/transport.hpp"

namespace ddl {

/// A peer of this host: its rank in the job and its region.
struct LocalPeer {
  Rank rank;
  std::shared_ptr<Region> region;
};

/// A part of the rank's own region, behind an AreaHead.
struct StagingArea {
  std::byte* begin = nullptr;
  Bytes bytes = 0;
};

class SharedMemoryTransport : public Transport {
 public:
  /// `peers` in order of local rank, this rank among them at `me`. The regions are shared so that tests can
  /// run ranks as threads on the same ones.
  SharedMemoryTransport(std::vector<LocalPeer> peers, int me, Bytes staging);

  bool send(const Outgoing& message) override;
  /// send() in two halves, for who writes the payload straight into the block (at payload_of): claim it,
  /// which is refused like send(), then post. Only for payloads of more than View::kInline bytes.
  bool claim(const Outgoing& message);
  void post(const Outgoing& message);
  static std::byte* payload_of(std::byte* block) { return block + sizeof(BlockHead); }
  /// The peer's block behind a payload of which this rank is the last reader: it can be written over and sent
  /// back to the peer, by_receiver, instead of being released. Its lines are in this core's cache by then,
  /// and go to and fro between two ranks without any other traffic. Null: it is not ours to give.
  static std::byte* block_to_return(const View& view);
  bool progress(Inbox& inbox) override;
  /// For who knows what must come next: the first message in the peer's mailbox, where it lies, until
  /// drop_first(). Blocks are not given back: only for those of Reuse::by_agreement.
  struct Arrived {
    const Header* header = nullptr;  // null: nothing has
    const std::byte* payload = nullptr;
  };
  Arrived first_from(Rank rank);
  void drop_first(Rank rank);
  /// Whether a message waits to be taken; any thread, without the engine's lock.
  bool has_arrived();

  /// Staging taken so far, in bytes; areas that were given back are used again and not counted twice.
  Bytes staging_taken() const { return staging_used_ - staging_begin_; }
  /// An area for one communicator with `sharers` members on this host: `wanted` bytes or less (its fair share
  /// of what is left), but at least `least`; nothing where memory is short.
  std::optional<StagingArea> take_area(Bytes wanted, Bytes least, std::uint32_t sharers);
  /// Gives an area back; it is used again when all its sharers, the owner too, have left it.
  void return_area(StagingArea area);
  /// Gives back one that nobody was told about.
  void return_unused_area(StagingArea area);
  /// This rank will not read the area at `offset` of `owner`'s region any more.
  void leave_area(Rank owner, Bytes offset);
  Bytes offset_of(StagingArea area) const { return own_.offset_of(area.begin); }

  static void clear_block(std::byte* block);
  static bool block_is_free(const std::byte* block);
  /// Bytes of staging that a block takes for a payload of at most that size.
  static constexpr Bytes block_bytes(Bytes payload) { return sizeof(BlockHead) + round_up(payload, 64); }

  /// Sleeping without missing a message: announce, look once more (progress), then sleep or cancel. Any
  /// thread. With a descriptor that may become readable too, the own region must have a bell.
  std::uint32_t announce_sleep();
  void sleep(std::uint32_t announced, Nanoseconds at_most, int or_readable = -1);
  void cancel_sleep();

 private:
  struct Peer {
    SharedMemoryTransport* transport;  // the owner of this record, for View::release
    Rank rank;
    std::shared_ptr<Region> region;
    std::uint32_t put = 0;    // entries put into its mailbox from us
    std::uint32_t gone = 0;   // of those, taken by it when we last looked
    std::uint32_t taken = 0;  // entries taken from ours
  };
  std::vector<StagingArea>::iterator best_returned(Bytes wanted);
  static void ring(Region& region);
  static void release(void* peer, void* block);
  static void take_back(void* peer, void* block);
  bool has_room(std::span<const Rank> to);
  void put(Peer& peer, const Outgoing& message);
  View view_of(Peer& peer, const Descriptor& entry);
  Descriptor& entry_of(const Peer& peer, std::uint32_t taken);
  Descriptor* first_entry(const Peer& peer);  // null: not there yet
  void drop_first(Peer& peer);
  Peer& peer_of(Rank rank) {
    return peers_[static_cast<std::size_t>(local_of_[static_cast<std::size_t>(rank)])];
  }

  std::vector<Peer> peers_;
  std::vector<int> local_of_;  // by rank in the job, -1: elsewhere
  int me_;
  Region& own_;
  Bytes staging_begin_, staging_end_, staging_used_;
  std::vector<StagingArea> returned_;
};

}  // namespace ddl
