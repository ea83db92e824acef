// OwnTag: the tag of a message to ourselves, on the duplicate of MPI_COMM_SELF that is ours. Those of several
// threads, or of calls within each other, do not meet.
//
// Thread safety: all.
#pragma once

#include <mutex>
#include <vector>

namespace ddl::mpi {

/// A tag: nobody else's as long as this lives.
class OwnTag {
 public:
  OwnTag() {
    std::lock_guard lock(all().mutex);
    if (all().idle.empty()) all().idle.push_back(++all().made);
    tag_ = all().idle.back();
    all().idle.pop_back();
  }
  OwnTag(const OwnTag&) = delete;
  OwnTag& operator=(const OwnTag&) = delete;
  ~OwnTag() {
    std::lock_guard lock(all().mutex);
    all().idle.push_back(tag_);
  }
  operator int() const { return tag_; }

 private:
  struct Tags {
    std::mutex mutex;
    std::vector<int> idle;
    int made = 0;
  };
  static Tags& all() {
    static auto& tags = *new Tags;  // for exit handlers
    return tags;
  }
  int tag_;
};

}  // namespace ddl::mpi
