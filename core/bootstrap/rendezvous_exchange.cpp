#include "core/bootstrap/rendezvous_exchange.hpp"

#include <set>
#include <string>
#include <utility>

#include "core/bootstrap/host_identity.hpp"

namespace ddl {
namespace {

Exchange::Answers answers_of(RendezvousClient::Blobs blobs) {
  Exchange::Answers answers;
  answers.reserve(blobs.size());
  for (std::vector<std::byte>& blob : blobs) answers.emplace_back(std::move(blob));
  return answers;
}

}  // namespace

// A rendezvous that has failed must not be asked again.
template <class Body>
auto RendezvousExchange::once_failed_always(Body body) {
  if (!failure_.empty()) throw Error(failure_);
  try {
    return body();
  } catch (const std::exception& error) {
    failure_ = error.what();
    throw;
  }
}

void RendezvousExchange::start(std::span<const std::byte> mine) {
  once_failed_always([&] { rendezvous_->give(mine); });
}

std::optional<Exchange::Answers> RendezvousExchange::test() {
  return once_failed_always([&]() -> std::optional<Answers> {
    std::optional<RendezvousClient::Blobs> blobs = rendezvous_->receive_what_is_here();
    if (!blobs) return std::nullopt;
    return answers_of(std::move(*blobs));
  });
}

Exchange::Answers RendezvousExchange::wait() {
  return once_failed_always([&] { return answers_of(rendezvous_->receive()); });
}

JobStart start_at(std::shared_ptr<RendezvousClient> rendezvous) {
  std::string mine = text_of(host_identity());
  HostCounts counts{0, 0};
  std::set<std::string> different;
  for (const auto& identity : rendezvous->exchange(std::as_bytes(std::span(mine.data(), mine.size())))) {
    std::string theirs(reinterpret_cast<const char*>(identity.data()), identity.size());
    counts.local_size += theirs == mine;
    different.insert(std::move(theirs));
  }
  counts.hosts = static_cast<int>(different.size());
  return {std::make_unique<RendezvousExchange>(std::move(rendezvous)), counts};
}

}  // namespace ddl
