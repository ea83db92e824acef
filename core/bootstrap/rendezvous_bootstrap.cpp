#include "core/bootstrap/rendezvous_bootstrap.hpp"

#include <set>
#include <string>

#include "core/bootstrap/host_identity.hpp"

namespace ddl {
RendezvousBootstrap::RendezvousBootstrap(std::shared_ptr<Rendezvous> rendezvous)
    : rendezvous_(std::move(rendezvous)) {
  std::string mine = text_of(host_identity());
  Rendezvous::Blobs identities = rendezvous_->exchange(std::as_bytes(std::span(mine.data(), mine.size())));
  std::set<std::string> different;
  for (const auto& identity : identities) {
    std::string theirs(reinterpret_cast<const char*>(identity.data()), identity.size());
    if (theirs == mine) ++local_size_;
    different.insert(theirs);
  }
  hosts_ = static_cast<int>(different.size());
}

std::optional<std::vector<std::byte>> RendezvousBootstrap::card_of(Rank rank) {
  if (!cards_) cards_ = rendezvous_->receive();
  return (*cards_)[static_cast<std::size_t>(rank)];
}

}  // namespace ddl
