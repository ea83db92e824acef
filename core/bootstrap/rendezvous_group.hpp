// RendezvousGroup: who has come to a rendezvous, what they have brought to the round under way, and what went
// wrong. The part of the server that knows no sockets and no time.
//
// The first to come says how many there are. A round is complete when every rank has brought its blob. Once
// the group has failed it stays failed: nobody can go on without a member.
// Thread safety: none, the server's thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/base/types.hpp"

namespace ddl::rendezvous {

class RendezvousGroup {
 public:
  using Blob = std::vector<std::byte>;

  /// Why nobody may come as that rank of that many; "" when somebody may.
  std::string refusal(Rank rank, Rank size) const;
  /// Takes the place; only where nothing speaks against it.
  void join(Rank rank, Rank size);
  void bring(Rank rank, Blob blob);
  /// A member goes, as it said; or it is lost without a word.
  void leave(Rank rank);
  void lose(Rank rank);
  /// Somebody's patience is at an end: the failure names those who are missing.
  void give_up(double waited_s);
  /// The server goes; fails those who have not left.
  void close();

  bool is_complete() const { return size_ > 0 && brought_ == size_; }
  /// The blobs of the complete round, by rank; the next round begins.
  std::vector<Blob> take_round();

  /// Whether somebody waits for others now, and a number that changes when something new is waited for.
  bool waits() const { return failure_.empty() && size_ > 0 && (joined_ < size_ || brought_ > 0); }
  std::uint64_t phase() const { return joined_ < size_ ? 0 : round_ + 1; }
  bool has_begun() const { return size_ > 0; }
  bool all_left() const { return size_ > 0 && left_ == size_; }
  /// "" as long as all is well.
  const std::string& failure() const { return failure_; }

 private:
  struct Member {
    bool left = false, brought = false;
    Blob blob;
  };
  void fail(const std::string& why);
  std::string missing() const;

  std::map<Rank, Member> members_;  // those who have come
  Rank size_ = 0, joined_ = 0, left_ = 0, brought_ = 0;
  std::uint64_t round_ = 0;
  std::string failure_;
};

}  // namespace ddl::rendezvous
