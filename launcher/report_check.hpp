// --report FILE: rank 0 writes it; the launcher checks beforehand that it could, and afterwards that it did.
#pragma once

#include <cstdint>
#include <string>

namespace ddl {

/// Tells one version of a file from the next; all zero when there is none.
struct FileStamp {
  std::uint64_t inode = 0;
  std::int64_t seconds = 0, nanoseconds = 0, size = 0;
  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};
FileStamp stamp_of(const std::string& file);

/// Throws UsageError when the file could not be written: no such folder, no permission.
void check_report_place(const std::string& file);

/// Says where the report is, or that none was written and what that means.
void tell_about_report(const std::string& file, const FileStamp& before);

}  // namespace ddl
