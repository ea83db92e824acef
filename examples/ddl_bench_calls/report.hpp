// What was measured and checked. The rows of rank 0 count; every rank adds them. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace calls {

struct Row {
  std::string item;
  std::string what;
  std::uint64_t bytes = 0;
  double value = 0;
  std::string unit;
};

class Report {
 public:
  void add(Row row) { rows_.push_back(std::move(row)); }
  void check(bool right);

  // Adds up what all ranks have checked. Collective.
  void gather();
  std::uint64_t wrong() const { return wrong_; }
  void print(int ranks) const;
  std::string json(int ranks) const;

 private:
  std::vector<Row> rows_;
  std::uint64_t checked_ = 0;
  std::uint64_t wrong_ = 0;
};

}  // namespace calls
