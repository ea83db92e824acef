// The caches of a processor's cores, as Linux states them, and what is chosen by them.
#pragma once

#include <string>

#include "core/base/types.hpp"

namespace ddl {

/// In bytes; 0: unknown.
struct Caches {
  Bytes second = 0;  // of the second level: a core's own
  Bytes last = 0;    // of the highest level
  int cores = 1;     // that share the last one
};

/// Of the core that `folder` describes.
Caches read_caches(const std::string& folder);
/// Of this machine's first core, read once.
const Caches& caches();

/// Whether a line that another core has just written comes late and, however many are under way, slowly: over
/// the mesh of Intel's server processors 190 ns, and 10 ns each of many (of AMD's cores that share a cache 25
/// and 3.6). What is staged is written and read in such lines.
bool lines_come_slowly();

/// From how many bytes on a result is written past the cache, where that many ranks are on the host: the
/// program's two buffers of that size, of all ranks that share the cache, do not fit.
Bytes streamed_from(const Caches& caches, int ranks);

/// Over how many bytes a rank's staging blocks follow one another before their lines are written again
/// (transport/staging_ring), where that many ranks are on the host.
Bytes ring_of_blocks(const Caches& caches, int ranks);
/// Over how many they do so at first; `slow_lines`: see lines_come_slowly().
Bytes first_round_of_blocks(Bytes ring, bool slow_lines);

}  // namespace ddl
