#include "launcher/report_check.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/trace/report_file.hpp"
#include "launcher/messages.hpp"

namespace ddl {

void check_place(const std::string& what, const std::string& file) {
  const auto refuse = [&](const char* why, const char* cure) {
    throw UsageError(fmt::format("the {} {} cannot be written", what, file), why, cure);
  };
  struct stat facts {};
  const bool exists = stat(file.c_str(), &facts) == 0;
  if (exists && S_ISDIR(facts.st_mode)) refuse("it is a folder", "choose another name");
  const std::string folder = std::filesystem::path(file).parent_path().string();
  if (access(exists ? file.c_str() : folder.c_str(), W_OK) != 0)
    refuse("its folder is missing or not yours", "choose another place");
}

void check_is_read_again(const std::string& file) {
  struct stat facts {};
  if (stat(file.c_str(), &facts) == 0 && !S_ISREG(facts.st_mode) && !S_ISCHR(facts.st_mode))
    throw UsageError(fmt::format("the report {} cannot be read again", file), "it is no ordinary file",
                     "choose another name");
}

bool is_device(const std::string& file) {
  struct stat facts {};
  return stat(file.c_str(), &facts) == 0 && S_ISCHR(facts.st_mode);
}

void tell_about_report(const std::string& file, const FileStamp& before) {
  if (is_device(file)) return;  // where it stands, people see it
  FileStamp after = stamp_of(file);
  if (after != FileStamp{} && after != before) {
    FileText read = read_file(file, kMostReportBytes);
    if (nlohmann::json::accept(read.text)) return print_note("report written to " + file);
    return print_error(
        fmt::format("the report {} is not whole ({}); is there room for it?", file,
                    read.trouble.empty() ? fmt::format("{} bytes", read.text.size()) : read.trouble));
  }
  print_warning(fmt::format("no report was written to {}", file));
}

}  // namespace ddl
