#include "interpose/gloo/reductions.hpp"

#include <exception>

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

// The output is the first operand, as gloo has it.
void OwnReductionCall::combine(void* self, const void* in, void* inout, std::uint64_t count) noexcept {
  auto& call = *static_cast<OwnReductionCall*>(self);
  if (!call.thrown_.empty()) return;
  try {
    call.function_(inout, inout, in, count);
  } catch (const std::exception& error) {
    call.thrown_ = std::string("the program's reduction has thrown: ") + error.what();
  } catch (...) {
    call.thrown_ = "the program's reduction has thrown";
  }
}

}  // namespace ddl::gloo
