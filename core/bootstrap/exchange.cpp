#include "core/bootstrap/exchange.hpp"

#include <chrono>
#include <thread>

namespace ddl {

Exchange::Answers Exchange::wait() {
  constexpr auto kNap = std::chrono::microseconds(200);
  for (;;) {
    if (std::optional<Answers> answers = test()) return std::move(*answers);
    std::this_thread::sleep_for(kNap);
  }
}

}  // namespace ddl
