#include "core/base/file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace ddl {
namespace {

namespace fs = std::filesystem;

bool put(const fs::path& name, const std::string& text) {
  std::ofstream file(name);
  file << text;
  file.close();
  return !file.fail();
}

}  // namespace

bool write_file(const std::string& name, const std::string& text) {
  std::error_code error;
  fs::path target = fs::weakly_canonical(name, error);
  if (error) target = name;
  const fs::file_status old = fs::status(name, error);
  const bool is_special =
      fs::exists(old) ? !fs::is_regular_file(old) : fs::is_symlink(fs::symlink_status(name, error));
  const fs::path folder = target.has_parent_path() ? target.parent_path() : ".";
  if (is_special || ::access(folder.c_str(), W_OK) != 0) return put(name, text);
  const fs::path beside = target.string() + "." + std::to_string(::getpid());
  error.clear();
  if (put(beside, text))
    fs::rename(beside, target, error);
  else
    error = std::make_error_code(std::errc::io_error);
  if (!error) return true;
  fs::remove(beside, error);
  return false;
}

FileStamp stamp_of(const std::string& file) {
  struct stat facts {};
  if (::stat(file.c_str(), &facts) != 0) return {};
  return {facts.st_ino, facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec, facts.st_size};
}

}  // namespace ddl
