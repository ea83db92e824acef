// Strings of a command line: quoting for display, splitting of `--mpiarg "…"`. Commands are started from a
// vector of words; no shell ever parses them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddl {

using Strings = std::vector<std::string>;

/// The word as a POSIX shell would have to read it; unchanged when it needs no quotes.
std::string shell_quote(const std::string& word);
/// All words, quoted, with single blanks between them.
std::string shell_line(const Strings& words);
/// The words of `text` with a shell's rules for blanks, quotes and backslashes, but no expansion. Throws
/// UsageError when a quote is not closed.
Strings split_shell_words(std::string_view text);
/// The same of a line of a file, where a word that begins with # begins a comment.
Strings split_commented_words(std::string_view line);
std::string join(const Strings& words, std::string_view separator);

}  // namespace ddl
