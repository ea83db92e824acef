#pragma once

#include <functional>
#include <memory>

#include "core/bootstrap/pmix_exchange.hpp"
#include "core/session/session.hpp"

namespace ddl {

/// What the MPI library lends.
struct HostLibrary {
  bool calls_from_waits = false;   // it can call us from its own waits
  MpiExchange exchange;
  std::function<void()> progress;  // moves it while a rank waits in the engine
};

/// The session of the job that PMIx started this process in; null outside any job. To be joined when the MPI
/// library is initialised.
std::unique_ptr<Session> announce(HostLibrary library);

}  // namespace ddl
