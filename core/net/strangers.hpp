// Strangers: connections to one of our ports that have not said yet who they are. Any user of a machine in
// reach can make them, so there are few at a time, each has a while, and descriptors are left for the others.
//
// Thread safety: values and plain functions.
#pragma once

#include <cstddef>

namespace ddl {

/// How many at a time, before the oldest makes room: an eighth of the descriptors that the process may have,
/// so that most are left to the program, and 256 at most.
std::size_t most_strangers();
inline constexpr double kStrangersTime_s = 10;  // for saying who it is
/// Who connects faster than that has to wait until what else there is to do is done.
inline constexpr int kMostAcceptedAtOnce = 64;

/// Connections last as long as their communicators, and this is the program's process: it shall find as many
/// descriptors free as are taken. NCCL raises this limit, too, where its ranks first meet.
void keep_descriptors_free(int newest);

}  // namespace ddl
