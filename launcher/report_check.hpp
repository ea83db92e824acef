// Files that rank 0 writes, --report FILE above all: the launcher checks beforehand that it could, and
// afterwards that it did.
#pragma once

#include <string>

#include "core/base/file.hpp"

namespace ddl {

/// Throws UsageError when the file ("report") could not be written: no such folder, no permission.
void check_place(const std::string& what, const std::string& file);
/// The same for a pipe, of which the launcher would take what it is to tell about.
void check_is_read_again(const std::string& file);

/// A terminal, for instance: what is written there is not read again.
bool is_device(const std::string& file);

/// Says where the report is, or that none was written and what that means.
void tell_about_report(const std::string& file, const FileStamp& before);

}  // namespace ddl
