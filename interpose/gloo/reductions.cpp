#include "interpose/gloo/reductions.hpp"

namespace ddl::gloo {

std::optional<Reduction> KnownReductions::of(const ReduceFunction& function, std::size_t element_size) {
  const Plain* const held = function.target<Plain>();
  if (!held) return std::nullopt;
  std::lock_guard lock(mutex_);
  for (const Known& known : known_)
    if (known.function == *held && known.element_size == element_size) return known.reduction;
  known_.push_back({*held, element_size, recognise(function, element_size)});
  return known_.back().reduction;
}

}  // namespace ddl::gloo
