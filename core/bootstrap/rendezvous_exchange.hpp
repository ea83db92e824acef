// RendezvousExchange: rounds at a RendezvousServer, for jobs that are started without PMIx.
//
// The rule a user can break: the caller's own rounds on the same rendezvous go before the first start() or
// after the last answer. After an exception every call throws. Thread safety: one call at a time.
#pragma once

#include <memory>

#include "core/bootstrap/exchange.hpp"
#include "core/bootstrap/rendezvous_client.hpp"

namespace ddl {

class RendezvousExchange : public Exchange {
 public:
  explicit RendezvousExchange(std::shared_ptr<RendezvousClient> rendezvous)
      : rendezvous_(std::move(rendezvous)) {}

  Rank rank() const override { return rendezvous_->rank(); }
  Rank size() const override { return rendezvous_->size(); }
  void start(std::span<const std::byte> mine) override;
  std::optional<Answers> test() override;
  Answers wait() override;

 private:
  template <class Body>
  auto once_failed_always(Body body);

  std::shared_ptr<RendezvousClient> rendezvous_;
  std::string failure_;
};

/// Of a rank of such a job. Counts the hosts in a round of its own: returns when all ranks have come.
JobStart start_at(std::shared_ptr<RendezvousClient> rendezvous);

}  // namespace ddl
