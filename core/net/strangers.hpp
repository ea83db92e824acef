// Strangers: connections to one of our ports that have not said yet who they are. Any user of a machine in
// reach can make them, so there are few at a time, each has a while, and descriptors are left for the others.
//
// Thread safety: values and plain functions.
#pragma once

#include <cstddef>

namespace ddl {

inline constexpr std::size_t kMostStrangers = 256;  // the oldest makes room
inline constexpr double kStrangersTime_s = 10;      // for saying who it is

/// Connections last as long as their communicators, and this is the program's process: it shall find as many
/// descriptors free as are taken. NCCL raises this limit, too, where its ranks first meet.
void keep_descriptors_free(int newest);

}  // namespace ddl
