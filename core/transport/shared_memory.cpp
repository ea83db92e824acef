#include "core/transport/shared_memory.hpp"

#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

#include "core/base/cache_hints.hpp"
#include "core/base/pause.hpp"
#include "core/topology/caches.hpp"

namespace ddl {
namespace {

// In Descriptor::block, whose low bits are free: nobody counts its readers; it is the receiver's own.
// Or the payload is not there but where its sender has it.
// Or it may be written again as soon as the entry has been taken.
constexpr Bytes kUncounted = 1, kReturned = 2, kElsewhere = 4, kUntilTaken = 8;

timespec timespec_of(Nanoseconds time) {
  return {static_cast<time_t>(time / 1'000'000'000), static_cast<long>(time % 1'000'000'000)};
}

// The words live in memory shared between processes, so the futex is not a private one.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, Nanoseconds at_most) {
  timespec limit = timespec_of(at_most);
  ::syscall(SYS_futex, &word, FUTEX_WAIT, expected, &limit, nullptr, 0);
}

void futex_wake(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, 64, nullptr, nullptr, 0);
}

}  // namespace

SharedMemoryTransport::SharedMemoryTransport(std::vector<LocalPeer> peers, int me, Bytes staging)
    : me_(me),
      own_(*peers[static_cast<std::size_t>(me)].region),
      staging_begin_(Region::staging_offset(static_cast<int>(peers.size()))),
      pool_(own_, staging_begin_, staging, ring_of_blocks(caches(), static_cast<int>(peers.size())),
            first_round_of_blocks(ring_of_blocks(caches(), static_cast<int>(peers.size())),
                                  lines_come_slowly())) {
  const int here = static_cast<int>(peers.size());
  for (LocalPeer& peer : peers) {
    if (local_of_.size() <= static_cast<std::size_t>(peer.rank))
      local_of_.resize(static_cast<std::size_t>(peer.rank) + 1, -1);
    const int place = static_cast<int>(peers_.size());
    local_of_[static_cast<std::size_t>(peer.rank)] = place;
    Region& theirs = *peer.region;
    peers_.push_back({this, peer.rank, std::move(peer.region), &own_.mailbox(place, here),
                      &theirs.mailbox(me_, here), Mailbox::entry_bytes(here)});
  }
  // What peers send first is read without a fault for each page, where there are few peers.
  constexpr std::size_t kFew = 8;
  if (peers_.size() > 1) pool_.prepare();
  if (peers_.size() > 1 && peers_.size() <= kFew)
    for (Peer& peer : peers_) {
      peer.region->populate(0, staging_begin_);
      pool_.prepare_to_read(*peer.region);
    }
}

const Activity* SharedMemoryTransport::activity_of(Rank rank) const {
  const auto known = static_cast<std::size_t>(rank);
  if (known >= local_of_.size() || local_of_[known] < 0) return nullptr;
  return &peers_[static_cast<std::size_t>(local_of_[known])].region->head().activity;
}

std::vector<Activity*> SharedMemoryTransport::activities() const {
  std::vector<Activity*> all;
  for (const Peer& peer : peers_) all.push_back(&peer.region->head().activity);
  return all;
}

// What its readers wait for. But one way, what is not handed down and has many blocks is sooner written
// without prefetching its lines (1 KiB, 0.22 and 0.30 us).
void SharedMemoryTransport::write_small(std::byte* payload, const Outgoing& message) {
  const Bytes bytes = message.payload.size();
  const bool is_ahead = bytes > kMostHandedDown && bytes <= kMostInManyTurns;
  if (is_ahead && is_one_way(peer_of(message.to[0])))
    std::memcpy(payload, message.payload.data(), bytes);
  else
    write_block(payload, message.payload.data(), bytes);
  hand_down(payload, bytes);
}

bool SharedMemoryTransport::send(const Outgoing& message) {
  if (message.block || message.payload.size() <= most_inline()) {
    if (!has_room(message.to)) return false;
    if (message.block) write_small(payload_of(message.block), message);
    put_all(message);
    return true;
  }
  Outgoing claimed = message;
  if (!claim(claimed)) return false;
  block_copy_.copy(payload_of(claimed.block), message.payload.data(), message.payload.size());
  post(claimed);
  return true;
}

bool SharedMemoryTransport::send_inline(const Header& header, std::span<const std::byte> payload,
                                        std::span<Peer* const> to) {
  for (Peer* peer : to)
    if (!has_room(*peer)) return false;
  for (Peer* peer : to) put_inline(*peer, header, payload);
  return true;
}

bool SharedMemoryTransport::send_at_once(const Outgoing& message) {
  const Bytes bytes = message.payload.size();
  const std::size_t turns = bytes <= kMostInManyTurns ? kManyTurns : kTurns;
  AtOnce& turn = at_once_[next_at_once_ % turns];
  if (bytes > kMostAtOnce || !std::all_of(turn.entries.begin(), turn.entries.end(), [](const auto& entry) {
        return has_been_taken(*entry.first, entry.second);
      }))
    return send(message);
  if (!turn.block) turn.block = pool_.keep(kMostAtOnce, 1);  // it stays ours
  if (!turn.block) return send(message);
  if (!has_room(message.to)) return false;
  Outgoing staged = message;
  staged.block = turn.block;
  staged.reuse = Reuse::when_taken;
  const bool is_answered = !is_one_way(peer_of(message.to[0]));
  write_small(payload_of(turn.block), message);
  turn.entries.clear();
  for (Rank to : message.to) {
    turn.entries.emplace_back(&peer_of(to), peer_of(to).put);
    put(peer_of(to), staged);
  }
  // Where ranks wait for each other the next block is read by now, and its lines come while they wait.
  if (const AtOnce& next = at_once_[++next_at_once_ % turns]; is_answered && next.block)
    prefetch_to_write(payload_of(next.block), bytes);
  return true;
}

// The receiver's count is a cache line of the receiver's: it is read only when ours may be out of date. The
// counts wrap: no entry is older than a mailbox has room for.
bool SharedMemoryTransport::has_been_taken(Peer& peer, std::uint32_t entry) {
  if (peer.put - entry > Mailbox::kEntries) return true;
  auto has = [&] { return static_cast<std::int32_t>(peer.gone - entry) > 0; };
  if (has()) return true;
  peer.gone = peer.to->taken.load(std::memory_order_acquire);
  return has();
}

bool SharedMemoryTransport::claim(Outgoing& message) {
  if (!has_room(message.to)) return false;
  if (message.reuse == Reuse::when_released)
    message.block = pool_.take(message.payload.size(), static_cast<std::uint32_t>(message.to.size()),
                               message.need, message.turns);
  if (!message.block) return false;
  for (Rank to : message.to) ++peer_of(to).claimed;
  return true;
}

void SharedMemoryTransport::post(const Outgoing& message) {
  for (Rank to : message.to) --peer_of(to).claimed;
  put_all(message);
}

void SharedMemoryTransport::put_all(const Outgoing& message) {
  for (Rank to : message.to) put(peer_of(to), message);
}

// See has_been_taken().
bool SharedMemoryTransport::has_room(Peer& peer) {
  auto has = [&peer] { return peer.put + peer.claimed - peer.gone < Mailbox::kEntries; };
  if (has()) return true;
  peer.gone = peer.to->taken.load(std::memory_order_acquire);
  return has();
}

bool SharedMemoryTransport::has_room(std::span<const Rank> to) {
  return std::all_of(to.begin(), to.end(), [this](Rank rank) { return has_room(peer_of(rank)); });
}

// Who sends one message after the other waits for the line of each, which its reader has had, unless it asks
// for it in time. The very next one is where the reader looks for it. What is handed down takes its time,
// too.
void SharedMemoryTransport::prefetch_next_but_one(const Peer& peer, Bytes bytes) {
  const bool is_handed_down = bytes > peer.most_inline() && bytes <= kMostHandedDown;
  if (!is_handed_down) prefetch_entry(peer, bytes, 1);
}

template <class Fill>
void SharedMemoryTransport::put(Peer& peer, const Header& header, Fill fill) {
  Descriptor& entry = peer.entry_to(peer.put);
  prefetch_entry(peer, header.bytes);
  std::memcpy(&entry.header, &header, offsetof(Header, turn));
  fill(entry);
  entry.turn().store(++peer.put, std::memory_order_release);
  if (is_one_way(peer)) prefetch_next_but_one(peer, header.bytes);
  peer.taken_at_put = peer.taken;
  ring(*peer.region);
}

void SharedMemoryTransport::put_inline(Peer& peer, const Header& header, std::span<const std::byte> payload) {
  put(peer, header, [payload](Descriptor& entry) {
    if (payload.empty()) return;
    std::memcpy(entry.payload, payload.data(), payload.size());
    if (payload.size() > Descriptor::kInFirstLine)
      hand_down(entry.payload + Descriptor::kInFirstLine, payload.size() - Descriptor::kInFirstLine);
  });
}

void SharedMemoryTransport::put(Peer& peer, const Outgoing& message) {
  if (message.payload.size() <= peer.most_inline()) return put_inline(peer, message.header, message.payload);
  put(peer, message.header, [&](Descriptor& entry) {
    if (message.reuse == Reuse::elsewhere) {
      entry.block = own_.offset_of(message.block) | kElsewhere;
      entry.address = reinterpret_cast<std::uintptr_t>(message.payload.data());
    } else if (message.reuse == Reuse::by_receiver)
      entry.block = peer.region->offset_of(message.block) | kReturned;
    else
      entry.block = own_.offset_of(message.block) | (message.reuse == Reuse::by_agreement ? kUncounted
                                                     : message.reuse == Reuse::when_taken ? kUntilTaken
                                                                                          : 0);
  });
}

bool SharedMemoryTransport::has_arrived() {
  if (single_copies_.has_work()) return true;
  return std::any_of(peers_.begin(), peers_.end(), [&](Peer& peer) {
    std::uint32_t taken = std::atomic_ref(peer.taken).load(std::memory_order_relaxed);
    return peer.entry_from(taken).turn().load(std::memory_order_relaxed) == taken + 1;
  });
}

bool SharedMemoryTransport::progress(MessageHandler& handler) {
  bool moved = !single_copies_.empty() && end_single_copies();
  for (Peer& peer : peers_) {
    while (Descriptor* entry = first_entry(peer)) {
      Header header;
      std::memcpy(&header, &entry->header, offsetof(Header, turn));
      bool is_sound = header.bytes <= peer.most_inline() || names_a_block(peer, header, entry->block);
      View view = is_sound ? view_of(peer, header, *entry) : View();
      drop_first(peer);
      moved = true;
      if (is_sound)
        handler.deliver(header, view);
      else
        handler.peer_failed(peer.rank, "its message is not in its memory");
    }
  }
  return moved;
}

SharedMemoryTransport::Arrived SharedMemoryTransport::first_staged(const Peer& peer,
                                                                   const Descriptor& entry) const {
  if (entry.block & kReturned || !names_a_block(peer, entry.header, entry.block)) return {};
  if (entry.block & kElsewhere) {
    const bool is_joint = SingleCopySends::joint_of(peer.region->at(entry.block & ~kElsewhere)).is_joint();
    return is_joint ? Arrived{} : Arrived{.header = &entry.header, .is_elsewhere = true};
  }
  if (entry.block & kUntilTaken)
    return {&entry.header, payload_of(peer.region->at(entry.block & ~kUntilTaken))};
  const Bytes block = entry.block & ~kUncounted;
  return {&entry.header, payload_of(peer.region->at(block)), block, (entry.block & kUncounted) != 0};
}

// Of a longer payload: whether it lies as a whole where its sender has its blocks; or, if it comes back, in
// one of ours that has no other reader any more.
bool SharedMemoryTransport::names_a_block(const Peer& peer, const Header& header, Bytes block) const {
  const Region& region = block & kReturned ? own_ : *peer.region;
  Bytes offset = block & ~(kReturned | kUncounted | kElsewhere | kUntilTaken);
  const Bytes bytes = block & kElsewhere ? 0 : header.bytes;
  bool fits = offset % alignof(BlockHead) == 0 && offset >= staging_begin_ && offset < region.bytes() &&
              sizeof(BlockHead) + bytes <= region.bytes() - offset;
  return fits && (!(block & kReturned) ||
                  StagingPool::readers_of(own_.at(offset)).load(std::memory_order_relaxed) == 1);
}

View SharedMemoryTransport::view_of(Peer& peer, const Header& header, const Descriptor& entry) {
  if (header.bytes <= peer.most_inline()) return View::copy_of(entry.payload, header.bytes);
  if (entry.block & kReturned) {
    std::byte* block = own_.at(entry.block & ~kReturned);
    return View(payload_of(block), header.bytes, take_back, &peer, block);
  }
  if (entry.block & kElsewhere)
    return View::elsewhere(entry.address, header.bytes, count_out, &peer,
                           peer.region->at(entry.block & ~kElsewhere));
  if (entry.block & kUntilTaken) {
    auto* copy = new std::byte[header.bytes];
    std::memcpy(copy, payload_of(peer.region->at(entry.block & ~kUntilTaken)), header.bytes);
    return View(copy, header.bytes, free_copy, &peer, copy);
  }
  std::byte* block = peer.region->at(entry.block & ~kUncounted);
  auto give_back = entry.block & kUncounted ? nullptr : release;
  return View(block + sizeof(BlockHead), header.bytes, give_back, &peer, block);
}

std::byte* SharedMemoryTransport::block_to_return(const View& view) {
  if (!view.is_released_by(release)) return nullptr;
  auto* block = static_cast<std::byte*>(view.token());
  return StagingPool::readers_of(block).load(std::memory_order_acquire) == 1 ? block : nullptr;
}

// Nobody else reads it: whoever could, gave it back.
void SharedMemoryTransport::take_back(void* /*peer*/, void* block) {
  StagingPool::readers_of(static_cast<std::byte*>(block)).store(0, std::memory_order_relaxed);
}

void SharedMemoryTransport::release(void* peer, void* block) {
  auto& readers = StagingPool::readers_of(static_cast<std::byte*>(block));
  if (readers.fetch_sub(1, std::memory_order_acq_rel) == 1) ring(*static_cast<Peer*>(peer)->region);
}

void SharedMemoryTransport::free_copy(void* /*peer*/, void* copy) { delete[] static_cast<std::byte*>(copy); }

void SharedMemoryTransport::leave_block(Rank owner, Bytes offset) {
  release(&peer_of(owner), peer_of(owner).region->at(offset));
}

Bytes SharedMemoryTransport::kept_block_of(const View& view) const {
  return view.is_released_by(nullptr) && view.owner()
             ? static_cast<Bytes>(static_cast<const std::byte*>(view.token()) -
                                  static_cast<Peer*>(view.owner())->region->at(0))
             : 0;
}

void SharedMemoryTransport::ring(Region& region) {
  std::atomic_signal_fence(std::memory_order_seq_cst);  // see announce_sleep(): the compiler keeps the order
  RegionHead& head = region.head();
  if (head.sleeping.load(std::memory_order_relaxed) == 0) return;
  if (region.has_bell()) return region.ring_bell();
  head.bell.fetch_add(1, std::memory_order_release);
  futex_wake(head.bell);
}

// Either the sleeper sees what a peer has just written, or the peer sees that it sleeps. For that the peer
// would need a fence between the two in each message, where it would wait for the receiver's cache line, a
// tenth of a microsecond. So the sleeper, who has the time, waits until whatever was written before its word
// could be seen is visible. Should that take longer still, it sleeps as long as it may, and no longer.
std::uint32_t SharedMemoryTransport::announce_sleep() {
  constexpr int kPauses = 40;  // a microsecond or two
  std::uint32_t bell = own_.head().bell.load(std::memory_order_acquire);
  own_.head().sleeping.fetch_add(1, std::memory_order_seq_cst);
  for (int i = 0; i < kPauses; ++i) pause_a_moment();
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return bell;
}

void SharedMemoryTransport::sleep(std::uint32_t announced, Nanoseconds at_most, int or_readable) {
  if (own_.has_bell()) {
    pollfd ready[] = {{own_.bell(), POLLIN, 0}, {or_readable, POLLIN, 0}};
    timespec limit = timespec_of(at_most);
    if (::ppoll(ready, 2, &limit, nullptr) > 0 && ready[0].revents != 0) own_.silence_bell();
  } else {
    futex_wait(own_.head().bell, announced, at_most);
  }
  cancel_sleep();
}

void SharedMemoryTransport::cancel_sleep() { own_.head().sleeping.fetch_sub(1, std::memory_order_seq_cst); }

}  // namespace ddl
