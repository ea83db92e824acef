#include "launcher/strings.hpp"

#include <fmt/format.h>

#include "core/base/error.hpp"

namespace ddl {
namespace {

constexpr std::string_view kPlain =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,+@%^";

// Reads one quoted or bare word starting at `at`; leaves `at` behind it.
std::string read_word(std::string_view text, std::size_t& at) {
  std::string word;
  char quote = 0;
  for (; at < text.size(); ++at) {
    char c = text[at];
    if (quote == 0 && (c == ' ' || c == '\t' || c == '\n')) break;
    if (c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == '\\' && quote != '\'' && at + 1 < text.size()) {
      word += text[++at];
    } else {
      word += c;
    }
  }
  if (quote != 0) throw UsageError(fmt::format("a quote {} is not closed in '{}'", quote, text));
  return word;
}

// Until one begins with `end`, 0: all.
Strings words_until(char end, std::string_view text) {
  Strings words;
  for (std::size_t at = 0;;) {
    at = text.find_first_not_of(" \t\n", at);
    if (at == std::string_view::npos || text[at] == end) return words;
    words.push_back(read_word(text, at));
  }
}

}  // namespace

std::string shell_quote(const std::string& word) {
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string join(const Strings& words, std::string_view separator) {
  return fmt::format("{}", fmt::join(words, separator));
}

std::string shell_line(const Strings& words) {
  Strings quoted;
  for (const std::string& word : words) quoted.push_back(shell_quote(word));
  return join(quoted, " ");
}

Strings split_shell_words(std::string_view text) { return words_until(0, text); }
Strings split_commented_words(std::string_view line) { return words_until('#', line); }

}  // namespace ddl
