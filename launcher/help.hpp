// The text of --help and --version.
#pragma once

#include <string>

namespace ddl {

std::string help_text();
/// "ddlrun 0.1.0"
std::string version_text();

}  // namespace ddl
