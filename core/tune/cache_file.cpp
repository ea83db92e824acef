#include "core/tune/cache_file.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "core/base/error.hpp"
#include "core/base/file.hpp"

namespace ddl {

namespace fs = std::filesystem;

CacheText read_cache_file(const std::string& name) {
  std::error_code ignored;
  fs::file_status status = fs::status(name, ignored);
  if (name.empty() || !fs::exists(status)) return {};
  if (!fs::is_regular_file(status)) return {{}, "it is no file"};
  std::ifstream file(name);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) return {{}, "it cannot be read"};
  return {std::move(text), {}};
}

void write_cache_file(const std::string& name, const std::string& text, Old old) {
  std::error_code ignored;
  if (old == Old::keep) {
    const fs::path target = fs::weakly_canonical(name, ignored);
    fs::rename(target, target.string() + ".bad", ignored);
  }
  if (write_file(name, text)) return;
  throw Error(fmt::format("cannot write the tuning cache {}", name),
              "what this job has measured is measured again by the next",
              "let DDL_TUNE_CACHE name a file in a folder that exists and may be written");
}

}  // namespace ddl
