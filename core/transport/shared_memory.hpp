// SharedMemoryTransport: messages between the ranks of one host.
//
// A message is a descriptor in the receiver's mailbox; a payload of more than most_inline() bytes lies in a
// block of the sender's own region (StagingPool), written once and read by all its receivers, which count
// themselves out of the block. Bytes moved per message: one copy in by the sender; the receiver reduces or
// copies straight from the block. A payload may also be left where it is, for its receivers to read there.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/cache_hints.hpp"
#include "core/base/partition.hpp"
#include "core/transport/block_copy.hpp"
#include "core/transport/region.hpp"
#include "core/transport/single_copy.hpp"
#include "core/transport/staging_pool.hpp"
#include "core/transport/transport.hpp"

namespace ddl {

/// A peer of this host: its rank in the job and its region.
struct LocalPeer {
  Rank rank;
  std::shared_ptr<Region> region;
};

class SharedMemoryTransport : public Transport {
 public:
  /// `peers` in order of local rank, this rank among them at `me`; up to `staging` bytes of blocks, and more
  /// for who cannot wait. The regions are shared so that tests can run ranks as threads on the same ones.
  SharedMemoryTransport(std::vector<LocalPeer> peers, int me, Bytes staging);

  /// Of this host.
  int ranks() const { return static_cast<int>(peers_.size()); }
  /// This one, in the job.
  Rank rank() const { return peers_[static_cast<std::size_t>(me_)].rank; }
  /// What this process is doing, for its peers to see; and what a rank of this host does, null elsewhere.
  Activity& activity() { return own_.head().activity; }
  const Activity* activity_of(Rank rank) const;
  /// Of all ranks of this host, in order of local rank.
  std::vector<Activity*> activities() const;
  std::size_t place() const { return static_cast<std::size_t>(me_); }
  bool send(const Outgoing& message) override;
  /// A rank of this host, as who sends to it or hears from it again and again knows it.
  struct Peer {
    SharedMemoryTransport* transport;  // the owner of this record, for View::release
    Rank rank;
    std::shared_ptr<Region> region;
    Mailbox *from, *to;              // what it has put for us in our region, and we for it in its
    Bytes entry_bytes;               // of these
    std::uint32_t put = 0;           // entries put into its mailbox from us
    std::uint32_t claimed = 0;       // entries that claims will put there
    std::uint32_t gone = 0;          // of those, taken by it when we last looked
    std::uint32_t taken = 0;         // entries taken from ours
    std::uint32_t taken_at_put = 0;  // when we put our last one

    Bytes most_inline() const { return entry_bytes - sizeof(Header); }
    /// Of ours in its mailbox, and of its in ours.
    Descriptor& entry_to(std::uint32_t number) const { return to->entry(number, entry_bytes); }
    Descriptor& entry_from(std::uint32_t number) const { return from->entry(number, entry_bytes); }
  };
  /// A longer payload is not in the mailbox; View::kInline where few ranks share the host.
  Bytes most_inline() const { return Mailbox::entry_bytes(ranks()) - sizeof(Header); }
  Peer& peer_of(Rank rank) {
    return peers_[static_cast<std::size_t>(local_of_[static_cast<std::size_t>(rank)])];
  }
  /// For who will send so many bytes there soon, after `later` other messages.
  static void prefetch_entry(const Peer& peer, Bytes bytes, std::uint32_t later = 0) {
    const Descriptor& entry = peer.entry_to(peer.put + later);
    const Bytes payload = bytes <= peer.most_inline() ? bytes : 0;
    prefetch_to_write(reinterpret_cast<const std::byte*>(&entry), sizeof(Header) + payload);
  }
  /// send() of a payload of up to most_inline() bytes.
  bool send_inline(const Header& header, std::span<const std::byte> payload, std::span<Peer* const> to);
  /// send() of a longer one to receivers that will look for it with first_from(): of up to kMostAtOnce bytes
  /// nobody counts the readers, where they keep up.
  bool send_at_once(const Outgoing& message);
  static constexpr Bytes kMostAtOnce = 4 << 10;
  /// send() in two halves, for who writes the payload straight into the block: claim `payload.size()` bytes,
  /// which is refused like send() and fills in message.block, then post, with the payload at payload_of() the
  /// block. Only for payloads of more than most_inline() bytes; others may send in between.
  bool claim(Outgoing& message);
  void post(const Outgoing& message);
  static std::byte* payload_of(std::byte* block) { return StagingPool::payload_of(block); }
  /// How such a payload is best written.
  BlockCopy& block_copy() { return block_copy_; }
  /// The peer's block behind a payload of which this rank is the last reader: it can be written over and sent
  /// back to the peer, by_receiver, instead of being released. Its lines are in this core's cache by then,
  /// and go to and fro between two ranks without any other traffic. Null: it is not ours to give.
  static std::byte* block_to_return(const View& view);
  /// send() of a payload of more than most_inline() bytes that its receivers read where it is; it counts in
  /// message.unfinished until they have. They get a view that is_elsewhere().
  bool send_single_copy(const Outgoing& message);
  /// Ends those that have been read; true when any was. progress() does so too.
  bool end_single_copies();
  /// Those that count in `from` count in `to` from now on.
  void move_count(std::uint32_t& from, std::uint32_t& to) { single_copies_.move_count(from, to); }
  /// Such a payload will be fetched to that place, which nobody uses until then: its sender may begin to
  /// write.
  static void offer_place(const View& view, std::byte* into);
  /// After a failure, before the program has its buffers back: what has been sent to be read in them is
  /// refused to all who have not read it to its end.
  void withdraw_payloads();
  /// Likewise places are offered no more, and those that were are withdrawn: waits until then at most for a
  /// sender who is writing there.
  void stop_offering() { offers_places_ = false; }
  /// A sender that has its core takes a hundredth of that for a piece.
  static constexpr Nanoseconds kLongestPiece = 100'000'000;
  static void withdraw_place(const View& view, Nanoseconds until);
  /// Gets the payload of such a view there. Not all of it is there yet where its sender is still writing: to
  /// be asked again. It is refused where the kernel does not allow it, which is then to be said. The first
  /// may be done without the engine's lock. The view is released afterwards like any other.
  enum class Fetched : std::uint8_t { all, not_yet, refused };
  static Fetched fetch(const View& view, std::byte* into);
  static void ask_for_copy(const View& view);
  /// A piece of what was sent like that, that its reader would be helped with, for write() to be done without
  /// the engine's lock; none: nobody is to be helped.
  struct ToWrite {
    JointCopy* joint = nullptr;  // null: none
    JointCopy::Piece piece = {};
    const std::byte* from = nullptr;
    Region* reader = nullptr;
  };
  ToWrite take_to_write();
  /// Calls body(rank) for those who have yet to read what is counted there.
  template <class Body>
  void each_awaited_reader(const std::uint32_t* unfinished, const Body& body) const {
    auto place_of = [this](Rank rank) { return local_of_[static_cast<std::size_t>(rank)]; };
    single_copies_.each_awaited(unfinished, place_of, body);
  }
  static void write(const ToWrite& part);
  bool progress(MessageHandler& handler) override;
  /// For who knows what must come next: the first message in the peer's mailbox, where it lies, until
  /// drop_first(), which releases its block if it is told (0: it has none, or a kept one).
  struct Arrived {
    const Header* header = nullptr;  // null: nothing has
    const std::byte* payload = nullptr;
    Bytes block = 0;            // where it lies in the peer's region; 0: in the descriptor
    bool is_kept = false;       // in a block of Reuse::by_agreement
    bool is_elsewhere = false;  // to be fetched, by its reader alone: see take_first()
  };
  Arrived first_from(Peer& peer) {
    Descriptor* entry = first_entry(peer);
    if (!entry) return {};
    return entry->header.bytes <= peer.most_inline() ? Arrived{&entry->header, entry->payload}
                                                     : first_staged(peer, *entry);
  }
  /// Takes it, as progress() would.
  View take_first(Peer& peer) {
    Descriptor& entry = *first_entry(peer);
    const View view = view_of(peer, entry.header, entry);
    drop_first(peer);
    return view;
  }
  void drop_first(Peer& peer, Bytes block) {
    if (block) release(&peer, peer.region->at(block));
    drop_first(peer);
  }
  /// Whether a message waits to be taken; any thread, without the engine's lock.
  bool has_arrived();
  /// Whether body(header, peer) holds for all that are the first to be taken of a peer.
  template <class Body>
  bool all_first(const Body& body) const {
    return std::all_of(peers_.begin(), peers_.end(), [&body](const Peer& peer) {
      const Descriptor* first = first_entry(peer);
      return !first || body(first->header, peer);
    });
  }

  /// Staging taken so far, in bytes.
  Bytes staging_taken() const { return pool_.taken(); }
  /// A block that is sent from again and again, by agreement, until all its `sharers`, this rank among them,
  /// have left it; null where the pool is at its cap.
  std::byte* keep_block(Bytes payload, std::uint32_t sharers) { return pool_.keep(payload, sharers); }
  Bytes offset_of(const std::byte* block) const { return own_.offset_of(block); }
  /// This rank will not read that block of a peer's, or write its own, any more.
  void leave_block(Rank owner, Bytes offset);
  /// Where a view of Reuse::by_agreement lies in its sender's region; 0: it is none.
  Bytes kept_block_of(const View& view) const;

  /// Sleeping without missing a message: announce, look once more (progress), then sleep or cancel. Any
  /// thread. With a descriptor that may become readable too, the own region must have a bell.
  std::uint32_t announce_sleep();
  void sleep(std::uint32_t announced, Nanoseconds at_most, int or_readable = -1);
  void cancel_sleep();

 private:
  static void ring(Region& region);
  static void release(void* peer, void* block);
  static void take_back(void* peer, void* block);
  static void count_out(void* peer, void* block);
  static void free_copy(void* peer, void* copy);
  static bool has_been_taken(Peer& peer, std::uint32_t entry);
  static bool has_room(Peer& peer);
  bool has_room(std::span<const Rank> to);
  void put_all(const Outgoing& message);
  void put(Peer& peer, const Outgoing& message);
  // Nothing has come from that peer since the last message to it.
  static bool is_one_way(const Peer& peer) { return peer.taken_at_put == peer.taken; }
  void write_small(std::byte* payload, const Outgoing& message);
  static void prefetch_next_but_one(const Peer& peer, Bytes bytes);
  template <class Fill>
  static void put(Peer& peer, const Header& header, Fill fill);
  static void put_inline(Peer& peer, const Header& header, std::span<const std::byte> payload);
  bool names_a_block(const Peer& peer, const Header& header, Bytes block) const;
  View view_of(Peer& peer, const Header& header, const Descriptor& entry);
  static Descriptor* first_entry(const Peer& peer) {  // null: not there yet
    Descriptor& entry = peer.entry_from(peer.taken);
    return entry.turn().load(std::memory_order_acquire) == peer.taken + 1 ? &entry : nullptr;
  }
  Arrived first_staged(const Peer& peer, const Descriptor& entry) const;
  static void drop_first(Peer& peer) {
    const std::uint32_t taken = peer.taken + 1;
    std::atomic_ref(peer.taken).store(taken, std::memory_order_relaxed);
    peer.from->taken.store(taken, std::memory_order_release);
  }

  std::vector<Peer> peers_;
  std::vector<int> local_of_;  // by rank in the job, -1: elsewhere
  int me_;
  Region& own_;
  Bytes staging_begin_;  // in every region of this host
  StagingPool pool_;
  BlockCopy block_copy_;
  SingleCopySends single_copies_{pool_};
  bool offers_places_ = true;
  // Blocks of send_at_once(), which take turns, and the entries that name each.
  struct AtOnce {
    std::byte* block = nullptr;
    std::vector<std::pair<Peer*, std::uint32_t>> entries = {};
  };
  // Who sends one way is ahead by more of the shorter ones; more of the others leave the caches.
  static constexpr std::size_t kTurns = 4, kManyTurns = 16;
  static constexpr Bytes kMostInManyTurns = 1 << 10;
  std::array<AtOnce, kManyTurns> at_once_;
  std::size_t next_at_once_ = 0;
};

}  // namespace ddl
