#include "core/gradient/fusion.hpp"

#include <algorithm>

namespace ddl {

std::vector<std::vector<std::size_t>> cut_batches(std::span<const Part> parts, Bytes largest) {
  struct Growing {
    FusionClass of;
    std::size_t batch;
    Bytes bytes;
  };
  std::vector<std::vector<std::size_t>> batches;
  std::vector<Growing> growing;  // the last batch of each class
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Part& part = parts[i];
    const Bytes bytes = part.room() * size_of(part.of.type);
    auto last = std::find_if(growing.begin(), growing.end(),
                             [&](const Growing& batch) { return batch.of == part.of; });
    if (last == growing.end()) last = growing.insert(last, {part.of, 0, largest});
    if (last->bytes + bytes > largest) {
      last->batch = batches.size();
      last->bytes = 0;
      batches.emplace_back();
    }
    batches[last->batch].push_back(i);
    last->bytes += bytes;
  }
  return batches;
}

}  // namespace ddl
