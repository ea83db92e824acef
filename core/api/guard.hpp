// The guard of every function of a C boundary: no exception passes it.
#pragma once

#include <exception>
#include <string_view>

#include "core/api/call_api.h"

namespace ddl {

inline constexpr const char* kUnknownError = "an unknown error in the engine";

/// What `body` returns; where it throws, `tell` gets the words for that, and the result is `otherwise`. Takes
/// no memory.
template <class Result, class Tell, class Body>
Result guarded_by(Tell tell, Result otherwise, Body body) noexcept {
  try {
    return body();
  } catch (const std::exception& error) {
    tell(error.what());
  } catch (...) {
    tell(kUnknownError);
  }
  return otherwise;
}

/// Cut to what it holds.
inline void write(ddl_problem& problem, std::string_view text) noexcept {
  problem.text[text.copy(problem.text, sizeof problem.text - 1)] = 0;
}

/// The words go to `problem`.
template <class Result, class Body>
Result guarded(ddl_problem* problem, Result otherwise, Body body) noexcept {
  return guarded_by([problem](const char* text) { write(*problem, text); }, otherwise, body);
}

/// The words go nowhere: nobody can do anything about it.
template <class Result, class Body>
Result guarded_in_silence(Result otherwise, Body body) noexcept {
  return guarded_by([](const char*) {}, otherwise, body);
}

}  // namespace ddl
