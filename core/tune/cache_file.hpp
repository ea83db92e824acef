// The file behind DDL_TUNE_CACHE: reading it never throws, never waits and is bounded, whatever the name
// leads to; writing it (see core/base/file.hpp) loses nothing of what was there.
//
// Thread safety: pure functions on the file system.
#pragma once

#include <cstddef>
#include <string>

namespace ddl {

/// No cache file is larger: rank 0 reads it and tells every other rank.
inline constexpr std::size_t kMostCacheBytes = 1 << 20;

struct CacheText {
  std::string text;     // "" where there is no file yet
  std::string trouble;  // why it cannot be a cache: a folder, a pipe, too large; "" when it can
};

CacheText read_cache_file(const std::string& name);

/// Old::keep: what is there is no cache, and is kept beside as NAME.bad. Error when the file cannot be
/// written.
enum class Old : unsigned char { replace, keep };
void write_cache_file(const std::string& name, const std::string& text, Old old);

}  // namespace ddl
