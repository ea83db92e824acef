#include "core/tune/cache_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "core/base/error.hpp"
#include "core/base/file.hpp"

namespace ddl {

namespace fs = std::filesystem;

CacheText read_cache_file(const std::string& name) {
  std::error_code ignored;
  fs::file_status status = fs::status(name, ignored);
  if (name.empty() || !fs::exists(status)) return {};
  if (!fs::is_regular_file(status)) return {{}, "it is no file"};
  FileText file = read_file(name, kMostCacheBytes);
  return {std::move(file.text), std::move(file.trouble)};
}

void write_cache_file(const std::string& name, const std::string& text, Old old) {
  std::error_code ignored;
  if (old == Old::keep) {
    const fs::path target = fs::weakly_canonical(name, ignored);
    fs::rename(target, target.string() + ".bad", ignored);
  }
  if (std::error_code failed = write_file(name, text))
    throw Error(fmt::format("cannot write the tuning cache {}", name),
                fmt::format("{}: what this job has measured is measured again by the next", failed.message()),
                "let DDL_TUNE_CACHE name a file in a folder that exists and may be written");
}

CacheFileLock::CacheFileLock(const std::string& name)
    : folder_(::open((fs::path(name).parent_path() / ".").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  constexpr int kTries = 100;
  for (int i = 0; i < kTries && folder_ >= 0 && ::flock(folder_, LOCK_EX | LOCK_NB) != 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

CacheFileLock::~CacheFileLock() {
  if (folder_ >= 0) ::close(folder_);
}

}  // namespace ddl
