// Fifo: a queue that takes no memory before its first entry, for what mostly stays empty and lives briefly (a
// std::deque takes two blocks at once).
//
// Thread safety: none.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace ddl {

template <class T>
class Fifo {
 public:
  bool empty() const { return first_ == entries_.size(); }
  std::size_t size() const { return entries_.size() - first_; }
  /// From the oldest on.
  T& operator[](std::size_t i) { return entries_[first_ + i]; }
  const T& operator[](std::size_t i) const { return entries_[first_ + i]; }
  T& front() { return (*this)[0]; }
  const T& front() const { return (*this)[0]; }
  const T& back() const { return entries_.back(); }

  void push_back(T entry) { entries_.push_back(std::move(entry)); }
  void pop_front() {
    ++first_;
    if (2 * first_ < entries_.size()) return;  // so each entry is moved about once
    entries_.erase(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
  }
  void clear() {
    entries_.clear();
    first_ = 0;
  }

 private:
  std::vector<T> entries_;
  std::size_t first_ = 0;  // those before it are gone
};

}  // namespace ddl
