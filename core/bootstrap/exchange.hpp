// Exchange: all ranks' bytes to all ranks, in rounds: the only thing that joining a job needs from whoever
// started it.
//
// The rules a user can break: one test() or wait() with an answer per start(); all ranks make the same
// rounds; from the second round on all give the same number of bytes; after an exception nothing is asked any
// more, unless the provider says otherwise. Thread safety: one call at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/types.hpp"

namespace ddl {

class Exchange {
 public:
  /// By rank. Nothing from a rank that runs without the engine: all others see that alike, and nobody waits
  /// for it. Only the first round knows such ranks.
  using Answers = std::vector<std::optional<std::vector<std::byte>>>;

  virtual ~Exchange() = default;
  virtual Rank rank() const = 0;
  virtual Rank size() const = 0;
  /// Begins a round with what this rank has to say; does not wait for the others. Throws Error.
  virtual void start(std::span<const std::byte> mine) = 0;
  /// What all have said; nothing as long as some have not. Throws Error where that will not come. It may wait
  /// where whoever started the job offers no other way, but never for longer than its own timeout.
  virtual std::optional<Answers> test() = 0;
  /// The same, waiting. Throws Error.
  virtual Answers wait();
};

/// What is known of the hosts before the first round.
struct HostCounts {
  int local_size = 1;  // ranks of this job on this host
  int hosts = 0;       // of the job; 0: unknown
};

/// A rank's part in a job that somebody has started.
struct JobStart {
  std::unique_ptr<Exchange> exchange;  // null: this process is in no job
  HostCounts hosts;
};

/// What a rank says in a round of plain values, and what all have said. Error where one is of another type.
template <class Value>
std::span<const std::byte> bytes_of_value(const Value& value) {
  return std::as_bytes(std::span(&value, 1));
}
template <class Value>
std::vector<Value> values_of(const Exchange::Answers& answers) {
  std::vector<Value> values(answers.size());
  for (std::size_t rank = 0; rank < answers.size(); ++rank) {
    if (!answers[rank] || answers[rank]->size() != sizeof(Value))
      throw Error("rank " + std::to_string(rank) + " says something else than the others in a round");
    std::memcpy(&values[rank], answers[rank]->data(), sizeof(Value));
  }
  return values;
}

}  // namespace ddl
