#pragma once

#include <pthread.h>
#include <signal.h>

namespace ddl {

/// While it lives, threads that are started have all signals blocked: the program's signals are the
/// program's.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

/// Signal handlers that are installed while it lives, as by loading and starting UCX, go with it: the
/// program's stay the program's.
class SignalHandlersKept {
 public:
  SignalHandlersKept() {
    for (int s = 1; s < kSignals; ++s) known_[s] = sigaction(s, nullptr, &before_[s]) == 0;
  }
  ~SignalHandlersKept() {
    for (int s = 1; s < kSignals; ++s)
      if (known_[s]) sigaction(s, &before_[s], nullptr);
  }
  SignalHandlersKept(const SignalHandlersKept&) = delete;
  SignalHandlersKept& operator=(const SignalHandlersKept&) = delete;

 private:
  static constexpr int kSignals = 32;
  struct sigaction before_[kSignals];
  bool known_[kSignals] = {};
};

}  // namespace ddl
