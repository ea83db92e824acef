// An exchange without processes: the ranks write on one board, as threads or stepped by one thread.
#pragma once

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "core/bootstrap/exchange.hpp"

namespace ddl::test {

class ExchangeBoard {
 public:
  explicit ExchangeBoard(Rank size) : size_(size) {}
  Rank size() const { return size_; }

  /// That rank runs without the engine.
  void is_absent(Rank rank) {
    with_lock([&] { absent_.insert(rank); });
  }
  /// It says nothing from now on: the others' rounds fail.
  void is_gone(Rank rank) {
    with_lock([&] { gone_.insert(rank); });
  }

  void write(int round, Rank rank, std::span<const std::byte> words) {
    with_lock([&] { words_[{round, rank}].assign(words.begin(), words.end()); });
  }
  /// Nothing as long as somebody has not written. Error when somebody never will.
  std::optional<Exchange::Answers> read(int round) {
    std::lock_guard lock(mutex_);
    Exchange::Answers answers(static_cast<std::size_t>(size_));
    bool is_complete = true;
    for (Rank rank = 0; rank < size_; ++rank) {
      auto found = words_.find({round, rank});
      if (found != words_.end())
        answers[static_cast<std::size_t>(rank)] = found->second;
      else if (gone_.count(rank))
        throw Error(fmt::format("rank {} is gone", rank));
      else
        is_complete &= round == 1 && absent_.count(rank);
    }
    if (!is_complete) return std::nullopt;
    return answers;
  }

 private:
  template <class Body>
  void with_lock(Body body) {
    std::lock_guard lock(mutex_);
    body();
  }

  const Rank size_;
  std::mutex mutex_;
  std::map<std::pair<int, Rank>, std::vector<std::byte>> words_;
  std::set<Rank> absent_, gone_;
};

class BoardExchange : public Exchange {
 public:
  BoardExchange(ExchangeBoard& board, Rank rank) : board_(board), rank_(rank) {}
  /// It does not hear that round, though it has spoken.
  void misses(int round) { missed_round_ = round; }
  /// From before that round it says nothing more.
  void goes_before(int round) { last_round_ = round - 1; }

  Rank rank() const override { return rank_; }
  Rank size() const override { return board_.size(); }
  void start(std::span<const std::byte> mine) override {
    if (round_ == last_round_) {
      board_.is_gone(rank_);
      throw Error(fmt::format("rank {} goes", rank_));
    }
    board_.write(++round_, rank_, mine);
  }
  std::optional<Answers> test() override {
    if (round_ == missed_round_) throw Error(fmt::format("rank {} does not hear round {}", rank_, round_));
    return board_.read(round_);
  }

 private:
  ExchangeBoard& board_;
  const Rank rank_;
  int round_ = 0, last_round_ = -1, missed_round_ = -1;
};

}  // namespace ddl::test
