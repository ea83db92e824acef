// ddl.h: memory, and words for errors.
#include "core/api/ddl.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <string_view>

#include "core/api/ddl_handles.hpp"

#define DDL_TEXT_OF(number) #number
#define DDL_DOTTED(major, minor, patch) DDL_TEXT_OF(major) "." DDL_TEXT_OF(minor) "." DDL_TEXT_OF(patch)
#define DDL_HEADER_VERSION DDL_DOTTED(DDL_VERSION_MAJOR, DDL_VERSION_MINOR, DDL_VERSION_PATCH)

using namespace ddl::api;

namespace {

// What ddl_allocate has given.
struct Allocations {
  std::mutex mutex;
  std::map<void*, std::size_t> bytes_of;
};

// Never destroyed: the program may free memory while it ends.
Allocations& allocations() {
  static auto& all = *new Allocations;
  return all;
}

}  // namespace

static_assert(std::string_view(DDL_LIBRARY_VERSION) == DDL_HEADER_VERSION);

extern "C" {

ddl_status ddl_allocate(size_t bytes, void** memory) {
  return guarded(DDL_ERROR_SYSTEM, [&] {
    check(memory, "the pointer to the memory is NULL", "it becomes the memory");
    *memory = nullptr;
    if (bytes == 0) return;
    void* made = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) throw NoMemory(fmt::format("there are no {} bytes of memory", bytes));
    ::madvise(made, bytes, MADV_HUGEPAGE);
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    for (std::size_t at = 0; at < bytes; at += page) static_cast<volatile char*>(made)[at] = 0;
    Allocations& all = allocations();
    std::lock_guard lock(all.mutex);
    all.bytes_of.emplace(made, bytes);
    *memory = made;
  });
}

ddl_status ddl_free(void* memory, size_t bytes) {
  return guarded(DDL_ERROR_ARGUMENT, [&] {
    if (!memory) return;
    Allocations& all = allocations();
    std::lock_guard lock(all.mutex);
    const auto found = all.bytes_of.find(memory);
    check(found != all.bytes_of.end(), "this is not memory of ddl_allocate", "nothing else can be freed");
    if (found->second != bytes)
      throw BadArgument(fmt::format("this memory has {} bytes, not {}", found->second, bytes),
                        "it can only be freed as a whole");
    ::munmap(memory, bytes);
    all.bytes_of.erase(found);
  });
}

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
