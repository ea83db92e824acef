// SetupExchange: rounds of the ranks of a communicator whose setup goes on. Thread safety: one call at a
// time. Ownership: the setup, which ends with it.
#pragma once

#include "core/bootstrap/exchange.hpp"
#include "core/api/stream_api.h"

namespace ddl::nccl {

class SetupExchange : public Exchange {
 public:
  SetupExchange(ddl_setup* setup, Rank rank, Rank size) : setup_(setup), rank_(rank), size_(size) {}
  ~SetupExchange() override;
  SetupExchange(const SetupExchange&) = delete;
  SetupExchange& operator=(const SetupExchange&) = delete;

  Rank rank() const override { return rank_; }
  Rank size() const override { return size_; }
  void start(std::span<const std::byte> mine) override;
  std::optional<Answers> test() override { return collect(0); }
  Answers wait() override { return *collect(1); }

 private:
  std::optional<Answers> collect(int32_t wait);

  ddl_setup* setup_;
  const Rank rank_, size_;
  Bytes bytes_ = 0;  // of each rank's in this round
};

}  // namespace ddl::nccl
