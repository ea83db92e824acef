// A library of collectives as a table of functions: ranks are threads, communicators groups of them, sums of
// 64-bit integers in host memory, done by all members together when the last of them has called.
#pragma once

#include <atomic>
#include <barrier>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/hierarchy/library.h"

namespace ddl::test {

using Value = std::int64_t;
inline constexpr int kInProgress = 7, kCudaError = 1, kInvalidUsage = 5, kSystemError = 2, kValueType = 42;

/// One group, shared by its members.
struct LibraryGroup {
  explicit LibraryGroup(std::size_t size)
      : barrier(static_cast<std::ptrdiff_t>(size)), in(size), word(size) {}
  std::barrier<> barrier;
  std::vector<const Value*> in;  // of each member
  std::vector<std::pair<int, int>> word;
  std::mutex mutex;
  std::map<std::pair<int, int>, std::shared_ptr<LibraryGroup>> parts;  // by number of the split and color
};

/// One rank's end of it: what the opaque handles point to.
struct LibraryComm {
  std::shared_ptr<LibraryGroup> group;
  std::size_t place = 0;
  int splits = 0;
  int error = 0;             // what state() says
  bool splits_fail = false;  // on this rank
  int delay_ms = 0;          // of every all-reduce
  std::size_t calls = 0;     // collectives
};

/// What happened in this process; reset() before a test.
struct LibraryTally {
  std::atomic<int> parts{0}, rails{0};  // alive
  std::atomic<int> calls{0}, on_rails{0}, meetings{0}, complaints{0};
};
inline LibraryTally tally;
inline std::string has_no_rails;  // who; "": nobody

namespace library {

inline LibraryComm& of(void* comm) { return *static_cast<LibraryComm*>(comm); }

// Everybody shows its input; `take` then gets all of them, and may write its own output at the end.
template <class Take>
void together(LibraryComm& comm, const void* in, Take take) {
  LibraryGroup& group = *comm.group;
  group.in[comm.place] = static_cast<const Value*>(in);
  group.barrier.arrive_and_wait();
  auto write = take(group.in);
  group.barrier.arrive_and_wait();
  write();
  group.barrier.arrive_and_wait();
}

// The sum of `count` elements from `first` on.
inline void sum_into(LibraryComm& comm, const void* in, void* out, std::size_t first, std::size_t count) {
  together(comm, in, [=](const std::vector<const Value*>& all) {
    std::vector<Value> sum(count, 0);
    for (const Value* one : all)
      for (std::size_t i = 0; i < count; ++i) sum[i] += one[first + i];
    return [=] { std::copy(sum.begin(), sum.end(), static_cast<Value*>(out)); };
  });
}

inline int all_reduce(const void* in, void* out, std::size_t count, int, int, void* comm, void*) {
  ++tally.calls;
  std::this_thread::sleep_for(std::chrono::milliseconds(of(comm).delay_ms));
  return sum_into(of(comm), in, out, 0, count), 0;
}
inline int reduce_scatter(const void* in, void* out, std::size_t count, int, int, void* comm, void*) {
  ++tally.calls;
  return sum_into(of(comm), in, out, of(comm).place * count, count), 0;
}
inline int all_gather(const void* in, void* out, std::size_t count, int, void* comm, void*) {
  ++tally.calls;
  together(of(comm), in, [=](const std::vector<const Value*>& all) {
    std::vector<Value> whole;
    for (const Value* one : all) whole.insert(whole.end(), one, one + count);
    return [=] { std::copy(whole.begin(), whole.end(), static_cast<Value*>(out)); };
  });
  return 0;
}

// All members come, those that fail too.
inline int split(void* comm, int color, int key, void** part, const void*) {
  LibraryComm& whole = of(comm);
  LibraryGroup& group = *whole.group;
  group.word[whole.place] = {color, key};
  group.barrier.arrive_and_wait();
  std::size_t size = 0, place = 0;
  for (const auto& [its_color, its_key] : group.word) {
    size += its_color == color;
    place += its_color == color && its_key < key;
  }
  auto made = std::make_unique<LibraryComm>();
  {
    std::lock_guard lock(group.mutex);
    auto& its = group.parts[{whole.splits, color}];
    if (!its) its = std::make_shared<LibraryGroup>(size);
    made->group = its;
  }
  ++whole.splits;
  made->place = place;
  group.barrier.arrive_and_wait();
  if (whole.splits_fail) return kSystemError;
  ++tally.parts;
  *part = made.release();
  return 0;
}
inline int destroy(void* comm) {
  --tally.parts;
  delete &of(comm);
  return 0;
}

// Rails: groups by id.
struct Rails {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<LibraryGroup>> groups;
  int made = 0;
};
inline Rails& rails() {
  static Rails all;
  return all;
}
inline void make_rails_id(void* id) {
  std::lock_guard lock(rails().mutex);
  *static_cast<int*>(id) = ++rails().made;
}
inline void* open_rails(const void* id, int place, int extent, void*, const char* who,
                        char why[DDL_RAILS_TEXT_BYTES]) {
  if (who == has_no_rails) return std::string("no such card").copy(why, DDL_RAILS_TEXT_BYTES), nullptr;
  std::lock_guard lock(rails().mutex);
  auto& its = rails().groups[{static_cast<const char*>(id), DDL_RAILS_ID_BYTES}];
  if (!its) its = std::make_shared<LibraryGroup>(static_cast<std::size_t>(extent));
  ++tally.rails;
  return new LibraryComm{.group = its, .place = static_cast<std::size_t>(place)};
}
inline int all_reduce_on_rails(const void* in, void* out, std::size_t count, int, int, void* comm, void*) {
  ++tally.on_rails;
  return sum_into(of(comm), in, out, 0, count), 0;
}

}  // namespace library

inline const ddl_library& library_double() {
  static const ddl_library table = {
      .name = "the double",
      .all_reduce_name = "all_reduce",
      .in_progress = kInProgress,
      .cuda_error = kCudaError,
      .invalid_usage = kInvalidUsage,
      .complain = [](int result, const char*) { return ++tally.complaints, result; },
      .describe = [](int) { return "an error"; },
      .last_error = [](void*) { return "of the double"; },
      .group_start = [] { return 0; },
      .group_end = [] { return 0; },
      .split = library::split,
      .destroy = library::destroy,
      .state = [](void* comm) { return library::of(comm).error; },
      .reduce_scatter = library::reduce_scatter,
      .all_reduce = library::all_reduce,
      .all_gather = library::all_gather,
      .meet =
          [](void*, void* comm, void*) {
            ++tally.meetings;
            library::of(comm).group->barrier.arrive_and_wait();
            return 0;
          },
      .make_rails_id = library::make_rails_id,
      .open_rails = library::open_rails,
      .all_reduce_on_rails = library::all_reduce_on_rails,
      .state_of_rails = [](void* comm) { return library::of(comm).error; },
      .abort_rails = [](void*) {},
      .close_rails =
          [](void* comm) {
            --tally.rails;
            delete &library::of(comm);
          },
  };
  return table;
}

}  // namespace ddl::test
