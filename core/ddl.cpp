// ddl.h: memory and errors.
#include "core/ddl.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>

#include "core/ddl_handles.hpp"

using namespace ddl::api;

namespace {

thread_local char last_error[1024];

}  // namespace

namespace ddl::api {

ddl_status refuse(ddl_status status, const std::string& text) noexcept {
  std::snprintf(last_error, sizeof(last_error), "%s", text.c_str());
  return status;
}

}  // namespace ddl::api

extern "C" {

ddl_status ddl_allocate(size_t bytes, void** memory) {
  return guarded(DDL_ERROR_SYSTEM, [&] {
    check(memory, "the pointer to the memory is NULL", "it becomes the memory");
    *memory = nullptr;
    if (bytes == 0) return;
    void* made = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) throw ddl::Error(fmt::format("there are no {} bytes of memory", bytes));
    ::madvise(made, bytes, MADV_HUGEPAGE);
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    for (std::size_t at = 0; at < bytes; at += page) static_cast<volatile char*>(made)[at] = 0;
    *memory = made;
  });
}

ddl_status ddl_free(void* memory, size_t bytes) {
  return guarded(DDL_ERROR_ARGUMENT, [&] {
    if (memory && ::munmap(memory, bytes) != 0)
      throw BadArgument("this is not memory of ddl_allocate", std::strerror(errno), "give its bytes, too");
  });
}

const char* ddl_error_message(void) { return last_error; }

const char* ddl_error_string(ddl_status status) {
  switch (status) {
    case DDL_SUCCESS:
      return "success";
    case DDL_ERROR_ARGUMENT:
      return "invalid argument";
    case DDL_ERROR_STATE:
      return "the job is finalized";
    case DDL_ERROR_LAUNCH:
      return "the job cannot be joined";
    case DDL_ERROR_JOB:
      return "the job has failed";
    case DDL_ERROR_SYSTEM:
      return "out of memory or of another resource";
  }
  return "unknown status";
}

const char* ddl_version(void) { return DDL_LIBRARY_VERSION; }

}  // extern "C"
