// --report FILE: rank 0 writes it; the launcher checks beforehand that it could, and afterwards that it did.
#pragma once

#include <string>

#include "core/base/file.hpp"

namespace ddl {

/// Throws UsageError when the file could not be written: no such folder, no permission.
void check_report_place(const std::string& file);

/// A terminal, for instance: what is written there is not read again.
bool is_device(const std::string& file);

/// Says where the report is, or that none was written and what that means.
void tell_about_report(const std::string& file, const FileStamp& before);

}  // namespace ddl
