// The one exception type. Thrown on set-up paths only and stopped at the boundaries: the launcher's main and
// the guards of each ABI. Expected outcomes (no credit yet, no such key) are values, not errors.
#pragma once

#include <stdexcept>
#include <string>

namespace ddl {

/// One error in the project's grammar: `<problem> (<why it matters>); <what to do>`. `why` and `cure` may be
/// empty.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& problem, const std::string& why = {}, const std::string& cure = {})
      : std::runtime_error(sentence(problem, why, cure)) {}

  static std::string sentence(const std::string& problem, const std::string& why, const std::string& cure) {
    std::string text = problem;
    if (!why.empty()) text += " (" + why + ")";
    if (!cure.empty()) text += "; " + cure;
    return text;
  }
};

/// Bad input from the user: exit code 2 of the launcher.
class UsageError : public Error {
 public:
  using Error::Error;
};

}  // namespace ddl
