#include "core/api/ddl_handles.hpp"

#include <cstdio>

namespace {

thread_local char last_error[1024];

}  // namespace

namespace ddl::api {

ddl_status refuse(ddl_status status, const char* text) noexcept {
  std::snprintf(last_error, sizeof(last_error), "%s", text);
  return status;
}

}  // namespace ddl::api

extern "C" const char* ddl_error_message(void) { return last_error; }
