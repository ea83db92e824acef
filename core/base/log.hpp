// Messages to people: one line each on standard error, never on standard output (that belongs to the
// program).
//   ddl: warning: [rank 3 on h1] text
#pragma once

#include <fmt/format.h>

#include <string>

namespace ddl {

/// Who speaks, for the prefix of every line; set once when the rank is known. Empty: no brackets.
void set_log_speaker(const std::string& speaker);

/// Writes one whole line with one write(2), so that the lines of several ranks do not mix.
void log_line(const char* severity, const std::string& text);

inline void log_warning(const std::string& text) { log_line("warning", text); }
inline void log_error(const std::string& text) { log_line("error", text); }
inline void log_info(const std::string& text) { log_line("info", text); }

}  // namespace ddl
