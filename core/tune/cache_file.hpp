// The file behind DDL_TUNE_CACHE: reading it never throws, never waits and is bounded, whatever the name
// leads to; writing it (see core/base/file.hpp) loses nothing of what was there.
//
// Thread safety: functions of the file system alone.
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

/// While it lives, other jobs of this machine wait before they add to that file: for a second at most, and
/// where the file system can.
class CacheFileLock {
 public:
  explicit CacheFileLock(const std::string& name);
  ~CacheFileLock();
  CacheFileLock(const CacheFileLock&) = delete;
  CacheFileLock& operator=(const CacheFileLock&) = delete;

 private:
  int folder_;  // the file itself is replaced
};

}  // namespace ddl
