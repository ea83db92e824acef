#include "core/transport/shared_memory.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

namespace ddl {
namespace {

BlockHead& head_of(const std::byte* block) {
  return *reinterpret_cast<BlockHead*>(const_cast<std::byte*>(block));
}

// The words live in memory shared between processes, so the futex is not a private one.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, Nanoseconds at_most) {
  timespec limit{static_cast<time_t>(at_most / 1'000'000'000), static_cast<long>(at_most % 1'000'000'000)};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, expected, &limit, nullptr, 0);
}

void futex_wake(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, 64, nullptr, nullptr, 0);
}

}  // namespace

SharedMemoryTransport::SharedMemoryTransport(std::vector<LocalPeer> peers, int me, Bytes staging)
    : me_(me), own_(*peers[static_cast<std::size_t>(me)].region) {
  for (LocalPeer& peer : peers) {
    if (local_of_.size() <= static_cast<std::size_t>(peer.rank))
      local_of_.resize(static_cast<std::size_t>(peer.rank) + 1, -1);
    local_of_[static_cast<std::size_t>(peer.rank)] = static_cast<int>(peers_.size());
    peers_.push_back({this, peer.rank, std::move(peer.region)});
  }
  staging_begin_ = staging_used_ = own_.staging_offset(static_cast<int>(peers_.size()));
  staging_end_ = staging_begin_ + staging;
}

bool SharedMemoryTransport::send(const Outgoing& message) {
  if (!has_room(message.to)) return false;
  if (message.payload.size() > View::kInline) {
    if (!block_is_free(message.block)) return false;
    head_of(message.block)
        .readers.store(static_cast<std::uint32_t>(message.to.size()), std::memory_order_relaxed);
    std::memcpy(message.block + sizeof(BlockHead), message.payload.data(), message.payload.size());
  }
  for (Rank to : message.to) put(peer_of(to), message);
  return true;
}

bool SharedMemoryTransport::has_room(std::span<const Rank> to) {
  return std::all_of(to.begin(), to.end(), [&](Rank rank) {
    Peer& peer = peer_of(rank);
    std::uint32_t taken = peer.region->mailbox(me_).taken.load(std::memory_order_acquire);
    return peer.put - taken < Mailbox::kEntries;
  });
}

void SharedMemoryTransport::put(Peer& peer, const Outgoing& message) {
  Descriptor& entry = peer.region->mailbox(me_).entries[peer.put % Mailbox::kEntries];
  entry.header = message.header;
  entry.is_inline = message.payload.size() <= View::kInline;
  if (entry.is_inline) {
    if (!message.payload.empty()) std::memcpy(entry.payload, message.payload.data(), message.payload.size());
  } else {
    entry.block = own_.offset_of(message.block);
  }
  entry.turn.store(++peer.put, std::memory_order_release);
  ring(*peer.region);
}

bool SharedMemoryTransport::progress(Inbox& inbox) {
  bool moved = false;
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (static_cast<int>(i) == me_) continue;
    Mailbox& mailbox = own_.mailbox(static_cast<int>(i));
    while (true) {
      Descriptor& entry = mailbox.entries[peers_[i].taken % Mailbox::kEntries];
      if (entry.turn.load(std::memory_order_acquire) != peers_[i].taken + 1) break;
      Header header = entry.header;
      View view = view_of(peers_[i], entry);
      mailbox.taken.store(++peers_[i].taken, std::memory_order_release);
      inbox.deliver(header, view);
      moved = true;
    }
  }
  return moved;
}

View SharedMemoryTransport::view_of(Peer& peer, const Descriptor& entry) {
  if (entry.is_inline) return View::copy_of(entry.payload, entry.header.bytes);
  std::byte* block = peer.region->at(entry.block);
  return View(block + sizeof(BlockHead), entry.header.bytes, release, &peer, block);
}

void SharedMemoryTransport::release(void* peer, void* block) {
  auto& readers = head_of(static_cast<std::byte*>(block)).readers;
  if (readers.fetch_sub(1, std::memory_order_acq_rel) == 1) ring(*static_cast<Peer*>(peer)->region);
}

// The smallest free area of at least `wanted` bytes, else the largest free one.
std::vector<SharedMemoryTransport::Area>::iterator SharedMemoryTransport::best_returned(Bytes wanted) {
  auto better = [&](const Area& a, const Area& b) {
    bool a_fits = a.bytes >= wanted, b_fits = b.bytes >= wanted;
    return a_fits != b_fits ? a_fits : a_fits ? a.bytes < b.bytes : a.bytes > b.bytes;
  };
  auto best = returned_.end();
  for (auto area = returned_.begin(); area != returned_.end(); ++area)
    if (std::all_of(area->busy.begin(), area->busy.end(), block_is_free) &&
        (best == returned_.end() || better(*area, *best)))
      best = area;
  return best;
}

std::optional<StagingArea> SharedMemoryTransport::take_area(Bytes wanted, Bytes least) {
  // The first communicator, the world, may take a quarter, each later one an eighth of what is left: the
  // areas get smaller and slower as communicators multiply, but there are many before there are none.
  Bytes left = staging_end_ - staging_used_;
  Bytes share = std::min(wanted, left / (staging_used_ == staging_begin_ ? 4 : 8) / 4096 * 4096);
  if (share < least && left >= least) share = round_up(least, 64);
  auto used_before = best_returned(wanted);
  if (used_before != returned_.end() && used_before->bytes >= std::max(least, share)) {
    StagingArea taken = *used_before;
    returned_.erase(used_before);
    return taken;
  }
  if (share < least || share > left || !own_.reserve(staging_used_, share)) return std::nullopt;
  StagingArea area{own_.at(staging_used_), share};
  staging_used_ += round_up(share, 64);
  return area;
}

void SharedMemoryTransport::return_area(StagingArea area, std::vector<std::byte*> busy) {
  returned_.push_back({area, std::move(busy)});
}

void SharedMemoryTransport::clear_block(std::byte* block) {
  head_of(block).readers.store(0, std::memory_order_relaxed);
}

bool SharedMemoryTransport::block_is_free(const std::byte* block) {
  return head_of(block).readers.load(std::memory_order_acquire) == 0;
}

void SharedMemoryTransport::ring(Region& region) {
  // Pairs with announce_sleep(): either the sleeper sees what was just written, or we see that it sleeps.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  RegionHead& head = region.head();
  if (head.sleeping.load(std::memory_order_relaxed) == 0) return;
  head.bell.fetch_add(1, std::memory_order_release);
  futex_wake(head.bell);
}

std::uint32_t SharedMemoryTransport::announce_sleep() {
  std::uint32_t bell = own_.head().bell.load(std::memory_order_acquire);
  own_.head().sleeping.fetch_add(1, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return bell;
}

void SharedMemoryTransport::sleep(std::uint32_t announced, Nanoseconds at_most) {
  futex_wait(own_.head().bell, announced, at_most);
  cancel_sleep();
}

void SharedMemoryTransport::cancel_sleep() { own_.head().sleeping.fetch_sub(1, std::memory_order_seq_cst); }

}  // namespace ddl
