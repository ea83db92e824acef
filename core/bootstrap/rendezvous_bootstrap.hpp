// RendezvousBootstrap: the bootstrap of a job whose ranks meet at a RendezvousServer, without PMIx.
//
// The rule a user can break: the cards are one round of the rendezvous, given by publish and received by the
// first card_of; the caller's own rounds on the same rendezvous go before the constructor or after the job is
// connected. Thread safety: one call at a time.
#pragma once

#include <memory>
#include <vector>

#include "core/bootstrap/bootstrap.hpp"
#include "core/bootstrap/rendezvous.hpp"

namespace ddl {

class RendezvousBootstrap : public Bootstrap {
 public:
  /// Exchanges who lives on which host: returns when all ranks have come. Throws as Rendezvous does.
  explicit RendezvousBootstrap(std::shared_ptr<Rendezvous> rendezvous);

  Rank rank() const override { return rendezvous_->rank(); }
  Rank size() const override { return rendezvous_->size(); }
  int local_size() const override { return local_size_; }
  int hosts() const override { return hosts_; }
  void publish(std::span<const std::byte> card) override { rendezvous_->give(card); }
  /// Waits at its first call until all ranks have published, as long as the rendezvous does.
  std::optional<std::vector<std::byte>> card_of(Rank rank) override;

 private:
  std::shared_ptr<Rendezvous> rendezvous_;
  std::optional<Rendezvous::Blobs> cards_;
  int local_size_ = 0, hosts_ = 0;
};

}  // namespace ddl
