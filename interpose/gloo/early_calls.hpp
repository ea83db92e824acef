// EarlyCalls: which calls of a context are made by gloo because the ranks had not all met when a rank made
// them.
//
// A rank that waits long in vain for the others to come where they meet makes its call by gloo. Who comes
// late must make that very call by gloo, too. So in their last round the ranks tell which calls they have
// made so, and from then on none is added. Thread safety: none. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ddl::gloo {

class EarlyCalls {
 public:
  static constexpr std::size_t kMost = 8;
  /// Keys, each plus 1; 0: no more of them.
  using List = std::array<std::uint64_t, kMost>;

  /// Whether this rank makes a call of that key by gloo: not where it has told already, or has too many.
  bool add(std::uint64_t key);
  bool has_told() const { return has_told_; }
  const List& tell();
  /// What all ranks have told, this one, too.
  void hear(std::span<const List> of_all);
  /// Whether a call of that key is one that another rank has made by gloo. Each is asked for once.
  bool take(std::uint64_t key);
  bool is_empty() const { return to_take_.empty(); }

 private:
  List mine_{};
  bool has_told_ = false;
  std::vector<std::uint64_t> to_take_;
};

}  // namespace ddl::gloo
