#include "core/native/unique_id.hpp"

#include <memory>
#include <mutex>
#include <vector>

#include "core/bootstrap/rendezvous_server.hpp"

namespace ddl {
namespace {

// Of this process's ids. Those whose ranks have left go when the next is made.
struct Servers {
  std::mutex mutex;
  std::vector<std::unique_ptr<RendezvousServer>> alive;
};

Servers& servers() {
  static Servers* all = new Servers;  // outlives exit handlers of the program
  return *all;
}

}  // namespace

RendezvousId make_unique_id(const Env& env) {
  RendezvousLimits limits;
  limits.others_s = env.timeout_s;
  auto server = std::make_unique<RendezvousServer>(
      limits, env.rails.empty() ? std::vector<std::string>{} : split(env.rails, ','));
  RendezvousId id = server->id();
  std::lock_guard lock(servers().mutex);
  std::erase_if(servers().alive, [](const auto& one) { return one->is_over(); });
  servers().alive.push_back(std::move(server));
  return id;
}

}  // namespace ddl
