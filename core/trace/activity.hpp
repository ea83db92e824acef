// Activity: what the threads of a process are doing now, where its peers can see it. It lies in shared memory
// (transport/region.hpp), so that a rank that computes, is stopped or sits in the original library needs no
// say in being looked at.
//
//   Activity     pid, what it has said of a stall, CallRecord[kThreads], Stamp[kThreads]
//   CallRecord   one cache line: epoch, communicator, name of the function, and the number of the call:
//                4 n + 2 while the n-th is under way, 4 n + 3 while it is so in the original library, 4 n
//                when it has ended. The epoch is odd while anything but the number is being written, and
//                grows by 2 then: most calls are as the one before, and cost a word when they begin and one
//                when they end.
//   Stamp        since when the record has been as it is, as its own process saw it now and then: a call does
//                not read the clock.
//
// Thread safety: a record is written by one thread, the stamps by one; all is read by anybody.
#pragma once

#include <array>
#include <atomic>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/types.hpp"

namespace ddl {

/// What a function is called, up to 31 letters.
struct CallName {
  static constexpr std::size_t kWords = 4, kBytes = kWords * sizeof(std::uint64_t);
  std::array<std::uint64_t, kWords> words{};

  constexpr CallName() = default;
  constexpr CallName(std::string_view text) {
    for (std::size_t i = 0; i < text.size() && i + 1 < kBytes; ++i)
      words[i / 8] |= static_cast<std::uint64_t>(static_cast<unsigned char>(text[i])) << (i % 8 * 8);
  }
  /// Only what can be printed of it.
  std::string text() const;
  friend bool operator==(const CallName&, const CallName&) = default;
};

/// What a thread was doing when somebody looked.
struct CallStatus {
  enum class State : std::uint8_t { none, inside, ended };  // none: it has made no call
  State state = State::none;
  CallName name;
  CommId comm = 0;           // 0: it has none, or one that we do not know
  std::uint64_t number = 0;  // of the calls on it, from 1; 1 where it has none, 0 where we do not know
  Nanoseconds age = 0;       // of that state
  bool in_original = false;  // inside: the original library has the call

  bool is_in(const CallName& call, CommId on, std::uint64_t number_there) const {
    return state == State::inside && name == call && comm == on && number == number_there;
  }
};

class alignas(64) CallRecord {
 public:
  /// `name` stays where it is, as it is.
  void begin(const CallName& name, CommId comm, std::uint64_t number);
  /// Of the same name on the same communicator as the one before.
  void begin_next(std::uint64_t number) { number_.store(4 * number + 2, std::memory_order_release); }
  /// The call under way, if any, is left to the original library.
  void pass() {
    const std::uint64_t number = number_.load(std::memory_order_relaxed);
    if (number % 4 == 2) number_.store(number + 1, std::memory_order_release);
  }
  /// The original library has done it.
  void take_back() {
    const std::uint64_t number = number_.load(std::memory_order_relaxed);
    if (number % 4 == 3) number_.store(number - 1, std::memory_order_release);
  }
  void end() {
    number_.store(number_.load(std::memory_order_relaxed) & ~std::uint64_t{3}, std::memory_order_release);
  }
  /// Differs from all that were before.
  std::uint64_t turn() const;
  /// Without its age; `turn` belongs to it.
  CallStatus read(std::uint64_t& turn) const;

 private:
  std::atomic<std::uint64_t> epoch_, number_, comm_;
  std::atomic<const CallName*> name_at_;  // in the writer's memory
  std::array<std::atomic<std::uint64_t>, CallName::kWords> name_;
};
static_assert(sizeof(CallRecord) == 64);

/// All of it is valid where it is zero.
struct Activity {
  static constexpr std::size_t kThreads = 8;  // more of them share records, and are told apart less well

  std::atomic<std::int32_t> pid;
  std::atomic<std::uint64_t> said;  // see SaidOfStall
  // A rank of the job + 1: this one takes no part any more because that one is gone; its own: it has failed.
  std::atomic<std::int32_t> gave_up;
  std::array<char, 512> failure;  // why, then; written before
  std::atomic<std::int32_t> cpu;  // where its thread was last seen, see CoreBalance; 0: it was not
  std::array<CallRecord, kThreads> records;
  struct Stamp {
    std::atomic<std::uint64_t> turn;
    std::atomic<Nanoseconds> since;
  };
  std::array<Stamp, kThreads> stamps;
};

/// Notes since when things are as they are; every now and then, by the process itself.
void stamp(Activity& activity, Nanoseconds now);
/// What each thread does, or did last.
std::vector<CallStatus> statuses_of(const Activity& activity, Nanoseconds now);
/// What tells most to who waits in that call: a thread that is in it, else on that communicator, else in any
/// call; what was done last where none is.
CallStatus status_for(const std::vector<CallStatus>& statuses, CommId comm, std::uint64_t number);

/// That somebody in a call has told people how long it takes, in one word: which call, and after how long.
struct SaidOfStall {
  static constexpr Nanoseconds kUnit = 100'000'000;
  static std::uint64_t word(CommId comm, std::uint64_t number, Nanoseconds waited);
  /// Whether `word` says so of that call, after so long or longer.
  static bool covers(std::uint64_t word, CommId comm, std::uint64_t number, Nanoseconds waited);
};

}  // namespace ddl
