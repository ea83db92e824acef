// Calls that the program makes again and again, as it makes them: what is decided from their arguments is
// decided once. Only the buffers are other ones.
//
// A call is kept from the second time on, small and within a host (SessionCommunicator::keep); a program that
// never makes the same call again pays a look at a table. Of calls that differ in their counts alone one is
// kept, which is made for another count each time (2 ranks, one of 64 counts of up to 256 bytes each time,
// made anew and so, us: broadcast 0.28 and 0.15, all-to-all 0.38 and 0.25, all-reduce 0.35 and 0.22, started
// and waited for 0.77 and 0.39, MPI_Alltoallv 0.80 and 0.31, MPI_Allgatherv 0.55 and 0.26).
//
// Thread safety: that of the calls of one communicator, which are made one after the other.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/api/engine_api.h"
#include "core/base/types.hpp"
#include "interpose/mpi/blocks.hpp"
#include "interpose/mpi/call_buffers.hpp"
#include "interpose/mpi/own_reductions.hpp"

namespace ddl::mpi {

enum class Collective : std::uint8_t;
enum class Form : std::uint8_t;

/// The lists of a call that has a count for every rank, those that count on this one; of the others null.
using Lists = std::array<const int*, 4>;

/// All that the program says in a call, and whether it waits for it, but its lists and where its buffers are:
/// of these, whether they are the same one, MPI_IN_PLACE or null.
//
// Looked up and compared in every call. So these are four words from the beginning: read in one piece right
// after they were written in several, they would wait for these stores to finish.
class SaidCall {
 public:
  using Words = std::array<std::uint64_t, 4>;

  /// `other`: the other side's type, or the operation. `buffers`: about() them, or kBytes.
  SaidCall(const void* type, const void* other, int count, int other_count, int root, Collective collective,
           std::uint8_t buffers, Form form)
      : words_{reinterpret_cast<std::uintptr_t>(type), reinterpret_cast<std::uintptr_t>(other),
               pair(count, other_count),
               pair(root, static_cast<int>(collective) | buffers << 8 | static_cast<int>(form) << 16)} {}

  /// Of a movement by its bytes alone, of whatever type: its buffers are those that the engine is given.
  static constexpr std::uint8_t kBytes = 128;
  static std::uint8_t about(const void* in, const void* out) {
    auto kind = [](const void* buffer) { return buffer == MPI_IN_PLACE ? 2 : buffer ? 1 : 0; };
    return static_cast<std::uint8_t>(kind(in) | kind(out) << 2 | (in == out ? kInOneBuffer : 0));
  }

  const Words& words() const { return words_; }
  Words words_but_root() const { return {words_[0], words_[1], words_[2], words_[3] >> 32}; }
  /// Where the program has made them: lasting_name()s.
  void name_type(const void* name) { words_[0] = reinterpret_cast<std::uintptr_t>(name); }
  void name_other(const void* name) { words_[1] = reinterpret_cast<std::uintptr_t>(name); }
  const void* type() const { return reinterpret_cast<const void*>(words_[0]); }
  const void* other() const { return other_of(words_); }
  static const void* other_of(const Words& all) { return reinterpret_cast<const void*>(all[1]); }
  /// Whether it has no elements, or its counts are in lists.
  bool counts_none() const { return words_[2] == 0; }
  Collective collective() const { return static_cast<Collective>(words_[3] >> 32 & 0xff); }
  Form form() const { return static_cast<Form>(words_[3] >> 48 & 0xff); }
  bool is_by_bytes() const { return is_by_bytes(words_); }
  static bool is_by_bytes(const Words& all) { return (all[3] >> 40 & 0xff) == kBytes; }

  /// What it shares with all that differ in their counts alone, and not by much; no call says that. Nothing:
  /// it counts nothing, or not the same on both sides.
  std::optional<Words> alike() const { return alike(words_); }
  static std::optional<Words> alike(const Words& all) {
    constexpr int kFew = 3;  // up to 8 are alike
    const std::uint32_t count = low(all[2]), other = high(all[2]);
    const bool is_of_both = count == other && all[0] == all[1];
    if ((count != 0 && other != 0 && !is_of_both) || (count == 0 && other == 0)) return std::nullopt;
    const std::uint32_t says = (count != 0 ? 1 : 0) | (other != 0 ? 2 : 0);
    const int size = std::max(kFew, static_cast<int>(std::bit_width(std::max(count, other) - 1)));
    return Words{all[0], all[1], says << 8 | static_cast<std::uint32_t>(size), all[3] | kOfAlike};
  }
  /// The same of calls with a count for every rank, of one size class of blocks.
  Words alike_by_lists(std::uint32_t size) const {
    constexpr std::uint32_t kByLists = 4;
    return {words_[0], words_[1], kByLists << 8 | size, words_[3] | kOfAlike};
  }
  /// Those of both sides, or of the one that says any.
  std::uint64_t count() const { return count_of(words_[2]); }
  static std::uint64_t count_of(std::uint64_t counts) { return std::max(low(counts), high(counts)); }
  std::uint64_t counts() const { return words_[2]; }
  /// One buffer twice is right of one element, and of no more.
  bool is_in_one_buffer() const { return (words_[3] >> 40 & kInOneBuffer) != 0; }

  static std::uint64_t hash_of(const Words& all) {
    return (all[0] ^ all[1] << 1 ^ all[2] * 31 ^ (all[3] << 24 | all[3] >> 40)) * 0x9e3779b97f4a7c15ull;
  }

 private:
  static constexpr std::uint64_t kOfAlike = std::uint64_t{1} << 63;
  static constexpr std::uint8_t kInOneBuffer = 1 << 4;
  static std::uint32_t low(std::uint64_t word) { return static_cast<std::uint32_t>(word); }
  static std::uint32_t high(std::uint64_t word) { return static_cast<std::uint32_t>(word >> 32); }
  static constexpr std::uint64_t pair(int low, int high) {
    return static_cast<std::uint32_t>(low) | std::uint64_t{static_cast<std::uint32_t>(high)} << 32;
  }
  Words words_;
};

/// A buffer of the engine's call, by one of the program's.
struct BufferOf {
  enum class Which : std::uint8_t { none, in, out };
  Which which = Which::none;
  std::ptrdiff_t offset = 0;

  std::byte* at(const void* in, const void* out) const {
    if (which == Which::none) return nullptr;
    const void* begin = which == Which::in ? in : out;
    return static_cast<std::byte*>(const_cast<void*>(begin)) + offset;
  }
};

/// A result whose gaps are the program's, see has_gaps().
struct KeptPairs {
  std::uint64_t count = 0, bytes = 0;  // 0: there are none
  MPI_Datatype type = MPI_DATATYPE_NULL;
  // Where the engine puts it. Of calls that are started each has its own.
  std::shared_ptr<std::byte[]> memory = {};
};

/// Of a kept call that stands for all that differ from it in their counts alone.
struct OfAlike {
  std::optional<std::uint64_t> counts;  // SaidCall::counts() that it is made for now, and KeptCall::lists
  std::uint64_t elements_of_one = 0;    // of the engine's for one of the program's
  // Or, with a count for every rank, the engine's lists, for nobody else to write, and
  // ddl_collective_call::lengths.
  std::shared_ptr<Blocks> blocks = {}, in_blocks = {};
  std::uint64_t lengths = 0;
  int kept_exactly = 0;  // besides, so many of those it stands for
};

struct KeptCall {
  SaidCall::Words said;           // with `alike`, what it shares with these
  ddl_kept_call* call = nullptr;  // of the engine
  BufferOf in, out;
  std::vector<int> lists;                                     // one after the other
  std::shared_ptr<const Blocks> blocks = {}, in_blocks = {};  // the engine's call reads them
  std::shared_ptr<OwnReductionCall> reduction = {};           // its context, of an operation that
  unsigned operations_freed = 0;                              // was there when so many had been freed
  KeptPairs pairs = {};
  std::unique_ptr<OfAlike> alike = {};  // null: it stands for itself

  /// Whether one that has `alike` is made for these counts.
  bool is_for(const SaidCall& one, const Lists& other_lists, Rank ranks) const {
    return alike->counts == one.counts() && has(other_lists, ranks);
  }
  /// It is made for these from now on; nullopt: for none.
  void note_counts(std::optional<std::uint64_t> counts, const Lists& of_ranks, Rank ranks);
  void set_lists(const Lists& of_ranks, Rank ranks);
  /// What lies behind a block of the program's, or some, does so after as many elements.
  void count_anew(const SaidCall& other) {
    const auto before = static_cast<std::ptrdiff_t>(SaidCall::count_of(*alike->counts)),
               now = static_cast<std::ptrdiff_t>(other.count());
    for (BufferOf* buffer : {&in, &out}) buffer->offset = buffer->offset / before * now;
    alike->counts = other.counts();
  }

  bool is(const SaidCall::Words& other, const Lists& other_lists, Rank ranks) const {
    if (((said[0] ^ other[0]) | (said[1] ^ other[1]) | (said[2] ^ other[2]) | (said[3] ^ other[3])) != 0)
      return false;
    return alike || (lists.empty() ? !other_lists[0] : has(other_lists, ranks));
  }

 private:
  bool has(const Lists& other, Rank ranks) const;
};

/// The last reduction that went to the original for its type and operation; so does the next one that says
/// the same, whatever its root.
struct LastPassed {
  SaidCall::Words said_but_root{};
  const char* reason = nullptr;  // null: there was none
  std::uint64_t bytes = 0;
  unsigned operations_freed = 0;  // the operation was there when so many had been
};

/// The last call that counts no elements, and not by lists: who says the same again has none either.
struct LastEmpty {
  SaidCall::Words said{};
  bool is_set = false;
  unsigned operations_freed = 0;  // see LastPassed
};

class KeptCalls {
 public:
  /// The engine keeps no call of more ranks, and none with a longer block.
  static constexpr Rank kMostRanks = 512;
  static constexpr std::uint64_t kMostBytes = 1 << 20;

  /// Null: it is not kept.
  const KeptCall* find(const SaidCall& said, const Lists& lists, Rank ranks) const {
    return find(said.words(), lists, ranks);
  }
  const KeptCall* find(const SaidCall::Words& words, const Lists& lists, Rank ranks) const {
    if (calls_.empty()) return nullptr;
    for (std::size_t at = place_of(words);; at = (at + 1) % calls_.size()) {
      const KeptCall& one = calls_[at];
      if (!one.call) return nullptr;
      if (one.is(words, lists, ranks)) return &one;
    }
  }
  /// The same of those that it is alike to; null: none is kept, or it is better kept by itself.
  KeptCall* find_alike(const SaidCall::Words& alike, const SaidCall& said, const Lists& lists, Rank ranks);
  /// Whether the call was among the last that were made and not kept.
  bool is_made_again(const SaidCall::Words& said, const Lists& lists, Rank ranks);
  bool is_full(Rank ranks) const { return kept_ == most_of(ranks); }
  void add(KeptCall call, const Lists& lists, Rank ranks);
  void clear();
  bool has_some_by_bytes = false;

 private:
  static constexpr std::size_t kFewest = 2;
  // Each rank in turn may be the root of some.
  static std::size_t at_least(std::size_t least, Rank ranks) {
    return std::max(least, 4 * static_cast<std::size_t>(ranks));
  }
  static std::size_t most_of(Rank ranks) { return at_least(256, ranks); }
  std::size_t place_of(const SaidCall::Words& said) const {
    return SaidCall::hash_of(said) >> 32 & (calls_.size() - 1);
  }
  void insert(KeptCall call);
  void grow();

  std::vector<KeptCall> calls_;  // open addressing; as many as a power of two, at least half of them free
  std::size_t kept_ = 0;
  // Of what has been made, by part of its hash: the last two, for calls that take turns.
  std::vector<std::array<std::uint32_t, 2>> made_;
};

}  // namespace ddl::mpi
