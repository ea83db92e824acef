#include "core/topology/caches.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>

namespace ddl {
namespace {

// What a core's own cache holds today; also where nothing is known.
constexpr Bytes kLeast = 2 << 20;
// A virtual machine is shown all of a processor's cache, of which its few cores have a part: 480 MiB for four
// (all-reduce of 8, 16, 64 MiB there through and past the cache: 2 ranks 1.06 and 1.09, 2.26 and 2.08, 14.0
// and 10.1 ms; 4 ranks 1.59 and 2.19, 3.7 and 4.3, of 32 MiB 9.2 and 8.8).
constexpr Bytes kMost = 16 << 20;

std::string line_of(const std::string& name) {
  std::ifstream file(name);
  std::string line;
  std::getline(file, line);
  return line;
}

// "32768K"
Bytes bytes_of(const std::string& text) {
  Bytes number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return 0;
  char unit = end == text.data() + text.size() ? ' ' : *end;
  return number << (unit == 'K' ? 10 : unit == 'M' ? 20 : 0);
}

// "0-7,64-71": 16.
int count_of(const std::string& list) {
  int count = 0, first = 0, last = 0;
  for (const char *at = list.data(), *end = at + list.size(); at < end;) {
    auto [after_first, error] = std::from_chars(at, end, first);
    if (error != std::errc{}) break;
    last = first;
    at = after_first;
    if (at < end && *at == '-') at = std::from_chars(at + 1, end, last).ptr;
    count += last - first + 1;
    if (at < end) ++at;
  }
  return std::max(count, 1);
}

Bytes last_of_a_rank(const Caches& caches, int ranks) {
  return caches.last / static_cast<Bytes>(std::clamp(ranks, 1, caches.cores));
}

}  // namespace

Caches read_caches(const std::string& folder) {
  Caches caches;
  int highest = 0;
  for (int index = 0; index < 8; ++index) {
    std::string place = folder + "/index" + std::to_string(index) + "/";
    std::string level = line_of(place + "level");
    if (level.empty()) break;
    if (line_of(place + "type") == "Instruction" || std::atoi(level.c_str()) <= highest) continue;
    highest = std::atoi(level.c_str());
    caches.last = bytes_of(line_of(place + "size"));
    caches.cores = count_of(line_of(place + "shared_cpu_list"));
    if (highest == 2) caches.second = caches.last;
  }
  return caches;
}

const Caches& caches() {
  static const Caches of_first_core = read_caches("/sys/devices/system/cpu/cpu0/cache");
  return of_first_core;
}

bool lines_come_slowly() {
#ifdef __x86_64__
  return __builtin_cpu_is("intel");
#else
  return false;
#endif
}

Bytes streamed_from(const Caches& caches, int ranks) {
  return std::clamp(last_of_a_rank(caches, ranks) / 2, kLeast, kMost);
}

// Twice what a core has for itself, but no more than a quarter of a rank's part of the last cache: its
// program's buffers are to lie there, too.
Bytes ring_of_blocks(const Caches& caches, int ranks) {
  constexpr Bytes kFew = 256 << 10, kMany = 4 << 20;
  return std::clamp(std::min(2 * caches.second, last_of_a_rank(caches, ranks) / 4), kFew, kMany);
}

// Where lines come slowly they come so from the last cache, too, and from memory more so (2 ranks, staged,
// the first 250 calls by rounds of 4 MiB and of 512 KiB: 16 KiB reduced 3.7 and 2.8 us, all-reduced 4.2
// and 3.2, 64 KiB 8.5 and 6.1; later calls and those of 1 and 4 MiB alike, reduces of 16 MiB 1.9 and 2.1 ms).
Bytes first_round_of_blocks(Bytes ring, bool slow_lines) {
  constexpr Bytes kShort = 512 << 10;
  return slow_lines ? std::min(ring, kShort) : ring;
}

}  // namespace ddl
