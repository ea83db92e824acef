// KeyCounts: how often calls with keys were made, so that one whose key comes again is told from the one
// before.
//
// Exact for each key by itself: two ranks may make calls of different keys in any order. Keys that lie
// together share a page; of the pages only those used last are kept, some millions of keys that are counted
// up, so that memory is bounded. The rule a user can break: a key that comes again does so before that many
// others, or long after. Thread safety: none.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>

namespace ddl {

class KeyCounts {
 public:
  /// How often that key was counted before.
  std::uint32_t count(std::uint64_t key);

  static constexpr std::size_t kKeysPerPage = 512, kMostPages = 1 << 14;

 private:
  struct Page {
    std::uint64_t number;
    std::bitset<kKeysPerPage> seen;
    std::unique_ptr<std::array<std::uint32_t, kKeysPerPage>> times;  // null: each at most once
  };
  Page& page(std::uint64_t number);

  std::list<Page> pages_;  // the one used last first
  std::unordered_map<std::uint64_t, std::list<Page>::iterator> by_number_;
};

}  // namespace ddl
