// The table that the shim asks for, and nothing else.
#include <dlfcn.h>

#include "core/base/env.hpp"
#include "interpose/mpi/buffered_sends.hpp"
#include "interpose/mpi/collectives.hpp"
#include "interpose/mpi/comms.hpp"
#include "interpose/mpi/custom_ops.hpp"
#include "interpose/mpi/guard.hpp"
#include "interpose/mpi/init.hpp"
#include "interpose/mpi/made_types.hpp"
#include "interpose/mpi/persistent.hpp"
#include "interpose/mpi/state.hpp"

namespace ddl::mpi {
namespace {
ddl_mpi_table originals;
ddl_mpi_table* in_use = nullptr;  // the shim's
}  // namespace

const ddl_mpi_table& next() { return originals; }

void* mpi_library() { return dlopen("libmpi.so.40", RTLD_LAZY | RTLD_NOLOAD); }

namespace {

template <class Function>
ddl_function as_word(Function* function) {
  return reinterpret_cast<ddl_function>(function);
}

ddl_mpi_table all_hooks() {
  ddl_mpi_table front;
#define DDL_LATE_HOOK(name, arguments, handler) front.name = nullptr;
#define DDL_HOOK(name, arguments, handler) front.name = as_word(Guarded<#name, handler>::call);
#define DDL_PERSISTENT_HOOK(name, arguments, start) \
  front.name = as_word(Guarded<#name, Persistent<#name, &ddl_mpi_table::name, start>::init>::call);
#include "interpose/mpi/hooks.def"
  return front;
}

// Of `ddlrun --compare`: all else goes on as if we were not there.
ddl_mpi_table hooks_that_take_times() {
  ddl_mpi_table front = originals;
  const ddl_mpi_table ours = all_hooks();
  front.MPI_Init = ours.MPI_Init;
  front.MPI_Init_thread = ours.MPI_Init_thread;
  front.MPI_Finalize = ours.MPI_Finalize;
  return front;
}

}  // namespace

void look_at_requests() {
#define DDL_HOOK(name, arguments, handler)
#define DDL_LATE_HOOK(name, arguments, handler)                                                 \
  {                                                                                             \
    using Hook = handler<&ddl_mpi_table::name, std::remove_reference_t<decltype(name)>>;        \
    __atomic_store_n(&in_use->name, as_word(Guarded<#name, Hook::at>::call), __ATOMIC_RELAXED); \
  }
#include "interpose/mpi/hooks.def"
}

}  // namespace ddl::mpi

extern "C" __attribute__((visibility("default"))) int ddl_mpi_front(uint32_t version,
                                                                    const ddl_mpi_table* next,
                                                                    ddl_key_function* published_key,
                                                                    ddl_unwound_function* unwound,
                                                                    ddl_mpi_table* front) {
  if (version != DDL_FRONT_VERSION) return 0;
  ddl::mpi::originals = *next;
  ddl::mpi::state().published_key = published_key;
  ddl::mpi::state().unwound = unwound;
  ddl::mpi::in_use = front;
  *front =
      ddl::foreign_env("DDL_TIMES_ONLY").empty() ? ddl::mpi::all_hooks() : ddl::mpi::hooks_that_take_times();
  return 1;
}
