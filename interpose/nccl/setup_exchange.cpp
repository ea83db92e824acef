#include "interpose/nccl/setup_exchange.hpp"

#include "interpose/nccl/stream_comms.hpp"

namespace ddl::nccl {

SetupExchange::~SetupExchange() { stream_api()->leave(setup_); }

void SetupExchange::start(std::span<const std::byte> mine) {
  ddl_problem problem;
  bytes_ = mine.size();
  if (stream_api()->start_all_gather(setup_, mine.data(), mine.size(), &problem) != DDL_STREAM_OK)
    throw Error(problem.text);
}

std::optional<Exchange::Answers> SetupExchange::collect(int32_t wait) {
  ddl_problem problem;
  int32_t done = 0;
  std::vector<std::byte> all(bytes_ * static_cast<std::size_t>(size_));
  if (stream_api()->test_all_gather(setup_, wait, all.data(), bytes_, &done, &problem) != DDL_STREAM_OK)
    throw Error(problem.text);
  if (!done) return std::nullopt;
  Answers answers;
  for (auto of_rank = all.begin(); of_rank != all.end(); of_rank += static_cast<std::ptrdiff_t>(bytes_))
    answers.emplace_back(std::in_place, of_rank, of_rank + static_cast<std::ptrdiff_t>(bytes_));
  return answers;
}

}  // namespace ddl::nccl
