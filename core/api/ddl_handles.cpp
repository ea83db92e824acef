#include "core/api/ddl_handles.hpp"

#include <pthread.h>

#include <cstdio>

namespace {

thread_local char last_error[1024];
unsigned forks = 0;

}  // namespace

namespace ddl::api {

unsigned forks_before_this_process() noexcept {
  static const int watched = ::pthread_atfork(nullptr, nullptr, [] { ++forks; });
  static_cast<void>(watched);
  return forks;
}

ddl_status refuse(ddl_status status, const char* text) noexcept {
  std::snprintf(last_error, sizeof(last_error), "%s", text);
  return status;
}

}  // namespace ddl::api

extern "C" const char* ddl_error_message(void) { return last_error; }
