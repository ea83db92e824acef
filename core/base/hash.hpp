// FNV-1a: the same in every build of the library, which std::hash does not promise.
#pragma once

#include <cstdint>
#include <string_view>

namespace ddl {

constexpr std::uint64_t kHashBegin = 0xcbf29ce484222325u;

constexpr std::uint64_t hash_of(std::string_view text, std::uint64_t begin = kHashBegin) {
  for (char c : text) begin = (begin ^ static_cast<std::uint8_t>(c)) * 0x100000001b3u;
  return begin;
}

}  // namespace ddl
