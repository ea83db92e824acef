// Files that are read within bounds, and written whole or not at all. Thread safety: pure functions on the
// file system; of several that write the same file at once, the last one wins.
#pragma once

#include <cstdint>
#include <string>
#include <system_error>

namespace ddl {

struct FileText {
  std::string text;
  std::string trouble;  // why it cannot be read, "" when `text` is all of it
};

/// A file of at most so many bytes; longer ones, which may have no end, are refused. Waits where the name
/// leads to a pipe. Throws nothing but bad_alloc.
FileText read_file(const std::string& name, std::size_t most);

/// Written beside and renamed, so that whoever reads meanwhile sees the old one or the new one; a symbolic
/// link stays one. In place where it is a device, a pipe or a link that leads nowhere yet, or its folder is
/// closed to us. The result is no error when all of it is in the file, else why not: no such folder, a full
/// disk.
std::error_code write_file(const std::string& name, const std::string& text);

/// Removes what was left beside that file by threads that were killed while they wrote it: `NAME.ddl-THREAD`.
/// Nobody else writes it now on another machine.
void remove_unfinished(const std::string& name);

/// Tells one version of a file from the next; all zero when there is none, or it is no regular file: a
/// terminal changes without being written to, and to read it may take for ever.
struct FileStamp {
  std::uint64_t inode = 0;
  std::int64_t seconds = 0, nanoseconds = 0, size = 0;
  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};
FileStamp stamp_of(const std::string& file);

}  // namespace ddl
