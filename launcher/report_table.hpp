// --report -: the report as a table for people. Pure.
#pragma once

#include <string>

namespace ddl {

/// The table of a report's text; one line that says so where there is none.
std::string report_table(const std::string& report);

}  // namespace ddl
