#include "launcher/system.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <utility>

#include "core/base/env.hpp"
#include "core/base/error.hpp"
#include "core/base/file.hpp"

extern char** environ;

namespace ddl {
namespace {

constexpr std::size_t kMostFile = 16 << 20;  // hostfiles and rankfiles; /dev/zero has no end

std::optional<std::string> readable(const std::string& path) {
  FileText file = read_file(path, kMostFile);
  if (!file.trouble.empty()) return std::nullopt;
  return std::move(file.text);
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

}  // namespace

System this_system() {
  System world;
  world.variable = [](const std::string& name) { return foreign_env(name.c_str()); };
  world.file = readable;
  world.host = host_name();
  std::error_code failed;
  world.directory = std::filesystem::current_path(failed).string();
  if (const char* list = std::getenv("CUDA_VISIBLE_DEVICES")) world.visible_gpus = list;
  world.root = geteuid() == 0;
  for (char** entry = environ; entry && *entry; ++entry)
    if (std::string_view(*entry).substr(0, 4) == "DDL_") world.entries.emplace_back(*entry);
  return world;
}

Installation installation_of(const std::string& program_file) {
  std::filesystem::path bin = std::filesystem::path(program_file).parent_path();
  return {bin.string(), (bin.parent_path() / "lib").string()};
}

Installation this_installation() {
  std::error_code failed;
  std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (failed)
    throw Error("cannot find this program's own file", "/proc/self/exe: " + failed.message(), "mount /proc");
  return installation_of(self.string());
}

std::string absolute_path(const std::string& path, const std::string& directory) {
  return (std::filesystem::path(directory) / path).lexically_normal().string();
}

}  // namespace ddl
