// What all ranks of a communicator try at the same time, and conclude alike: whether every one of them could.
// What a rank tells the others afterwards has a `trouble`, a text for people that is empty where all went
// well.
#pragma once

#include <fmt/format.h>

#include <array>
#include <exception>
#include <string>
#include <vector>

namespace ddl {

using TroubleText = std::array<char, 300>;

/// Of a rank that has nothing else to tell.
struct Outcome {
  TroubleText trouble{};
};

/// What a step says, which returns "" or what is in the way, or throws.
template <class Step>
TroubleText trouble_with(Step step) {
  TroubleText trouble{};
  std::string text;
  try {
    text = step();
  } catch (const std::exception& error) {
    text = error.what();
  }
  text.copy(trouble.data(), trouble.size() - 1);
  return trouble;
}

/// "" when nobody is in trouble; alike on all ranks.
template <class Told>
std::string first_trouble(const std::vector<Told>& all) {
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank].trouble[0] != 0) return fmt::format("rank {}: {}", rank, all[rank].trouble.data());
  return {};
}

}  // namespace ddl
