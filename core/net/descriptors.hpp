// How many of the process's file descriptors are ours: this is the program's process, and it may have few.
//
// Strangers are connections to one of our ports that have not said yet who they are. Any user of a machine in
// reach can make them, so there are few at a time, each has a while, and descriptors are left for the others.
//
// Thread safety: all.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ddl {

/// How many at a time, before the oldest makes room: an eighth of the descriptors that the process may have,
/// so that most are left to the program, and 256 at most.
std::size_t most_strangers();
inline constexpr double kStrangersTime_s = 10;  // for saying who it is
/// Who connects faster than that has to wait until what else there is to do is done.
inline constexpr int kMostAcceptedAtOnce = 64;

/// Connections last as long as their communicators, and the program shall find as many descriptors free as
/// are taken. NCCL raises this limit, too, where its ranks first meet.
void keep_descriptors_free(int newest);

/// Descriptors that one of many jobs of a process is going to need. The first is given what it wants; where
/// there are more, all together have at most a quarter of what the process may have, which is raised where
/// the machine allows it.
class DescriptorShare {
 public:
  /// Throws Error where that is too much.
  explicit DescriptorShare(std::uint64_t wanted);
  ~DescriptorShare();
  DescriptorShare(const DescriptorShare&) = delete;
  DescriptorShare& operator=(const DescriptorShare&) = delete;

 private:
  const std::uint64_t wanted_;
};

}  // namespace ddl
