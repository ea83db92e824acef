#include "core/stream/unique_id.hpp"

#include <cstdlib>
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

// It outlives the exit handlers of the program. But what the servers have still to tell their ranks is told
// before this process ends: a rank may leave as soon as it knows enough, and others may not have heard it
// yet.
Servers& servers() {
  static Servers* all = [] {
    std::atexit([] {
      std::unique_lock lock(servers().mutex, std::try_to_lock);  // a forked child may have it locked for ever
      if (lock.owns_lock()) servers().alive.clear();
    });
    return new Servers;
  }();
  return *all;
}

}  // namespace

RendezvousId make_unique_id(const Env& env) {
  RendezvousLimits limits;
  limits.others_s = env.timeout_s;
  auto server = std::make_unique<RendezvousServer>(limits, wanted_rails(env));
  RendezvousId id = server->id();
  std::lock_guard lock(servers().mutex);
  std::erase_if(servers().alive, [](const auto& one) { return one->is_over(); });
  servers().alive.push_back(std::move(server));
  return id;
}

}  // namespace ddl
