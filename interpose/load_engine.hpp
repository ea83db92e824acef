// How the fronts load the engine, libddl.so, from beside themselves.
#pragma once

#include <signal.h>

#include "core/api/engine_api.h"

namespace ddl {

/// Loading UCX, and setting it up, installs signal handlers; the program's stay the program's.
class SignalKeeper {
 public:
  SignalKeeper();
  ~SignalKeeper();
  SignalKeeper(const SignalKeeper&) = delete;
  SignalKeeper& operator=(const SignalKeeper&) = delete;

 private:
  static constexpr int kSignals = 32;
  struct sigaction before_[kSignals];
  bool known_[kSignals] = {};
};

/// Null, and *why, when it cannot be loaded or is another version.
const ddl_engine_api* load_engine(const char** why);

}  // namespace ddl
