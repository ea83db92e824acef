#include "core/base/file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string_view>
#include <utility>

namespace ddl {
namespace {

namespace fs = std::filesystem;

// No streams here: theirs throw where a read fails, and forget why a write did.
class Descriptor {
 public:
  Descriptor(const char* name, int flags) : number_(::open(name, flags | O_CLOEXEC, 0666)) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }
  int close() { return ::close(std::exchange(number_, -1)); }

 private:
  int number_;
};

std::error_code last_error() { return {errno, std::generic_category()}; }

std::error_code put(const fs::path& name, std::string_view text) {
  Descriptor file(name.c_str(), O_WRONLY | O_CREAT | O_TRUNC);
  if (file.number() < 0) return last_error();
  while (!text.empty()) {
    const ssize_t written = ::write(file.number(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return last_error();
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return file.close() == 0 ? std::error_code() : last_error();
}

// What is being written: behind this stands the thread that does it, which the process's others differ from.
constexpr const char* kBeside = ".ddl-";

fs::path without_links(const std::string& name) {
  std::error_code error;
  fs::path target = fs::weakly_canonical(name, error);
  return error ? fs::path(name) : target;
}

}  // namespace

FileText read_file(const std::string& name, std::size_t most) {
  Descriptor file(name.c_str(), O_RDONLY);
  if (file.number() < 0) return {{}, last_error().message()};
  FileText read;
  char piece[16384];
  while (true) {
    const ssize_t got = ::read(file.number(), piece, sizeof piece);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return {{}, last_error().message()};
    if (got == 0) return read;
    if (read.text.size() + static_cast<std::size_t>(got) > most)
      return {{}, fmt::format("it is larger than {} KiB", most >> 10)};
    read.text.append(piece, static_cast<std::size_t>(got));
  }
}

std::error_code write_file(const std::string& name, const std::string& text) {
  std::error_code error;
  const fs::path target = without_links(name);
  const fs::file_status old = fs::status(name, error);
  const bool is_special =
      fs::exists(old) ? !fs::is_regular_file(old) : fs::is_symlink(fs::symlink_status(name, error));
  const fs::path folder = target.has_parent_path() ? target.parent_path() : ".";
  if (is_special || ::access(folder.c_str(), W_OK) != 0) return put(name, text);
  const fs::path beside = target.string() + kBeside + std::to_string(::gettid());
  error = put(beside, text);
  if (!error) fs::rename(beside, target, error);
  std::error_code ignored;
  if (error) fs::remove(beside, ignored);
  return error;
}

void remove_unfinished(const std::string& name) {
  const fs::path target = without_links(name);
  const std::string start = target.filename().string() + kBeside;
  std::error_code ignored;
  for (fs::directory_iterator at(target.parent_path(), ignored), end; at != end; at.increment(ignored)) {
    const std::string found = at->path().filename().string();
    if (!found.starts_with(start)) continue;
    const std::string thread = found.substr(start.size());
    if (thread.empty() || thread.find_first_not_of("0123456789") != std::string::npos) continue;
    if (!fs::exists("/proc/" + thread, ignored)) fs::remove(at->path(), ignored);
  }
}

FileStamp stamp_of(const std::string& file) {
  struct stat facts {};
  if (::stat(file.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) return {};
  return {facts.st_ino, facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec, facts.st_size};
}

}  // namespace ddl
