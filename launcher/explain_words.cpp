#include "launcher/explain_words.hpp"

#include <fmt/format.h>

namespace ddl {

std::string size_text(Bytes bytes) {
  if (bytes >= 1 << 20) return fmt::format("{:.4g} MiB", static_cast<double>(bytes) / (1 << 20));
  if (bytes >= 1 << 10) return fmt::format("{:.4g} KiB", static_cast<double>(bytes) / (1 << 10));
  return fmt::format("{} B", bytes);
}

std::string time_text(double seconds) {
  if (seconds >= 1) return fmt::format("{:.3g} s", seconds);
  return seconds >= 1e-3 ? fmt::format("{:.3g} ms", seconds * 1e3) : fmt::format("{:.3g} us", seconds * 1e6);
}

// No factor of 1.00.
std::string times_text(double other, double ours) {
  const double factor = other / ours;
  if (factor > 0.995 && factor < 1.005) return "as long";
  return factor < 1 ? fmt::format("{:.2f} of the time", factor) : fmt::format("{:.2f} times as long", factor);
}

}  // namespace ddl
