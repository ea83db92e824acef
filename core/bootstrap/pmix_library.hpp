// The PMIx client library, loaded when it is first needed: the MPI library's own where it has one. A process
// can have one libpmix.so.2. One that we brought along would be taken for an MPI library that comes later
// and may lack what that one needs (Open MPI 5 has PMIx 5); and PMIx 4 does not understand all that a server
// of PMIx 5 sends.
#pragma once

#include <pmix.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/net/address.hpp"

namespace ddl {

/// Where it is looked for, in order, when it is not in the process yet: the folders that Open MPI 5's and
/// PRRTE's mpirun name in the environment, the one this was built with, and the dynamic linker's own. Pure.
std::vector<std::string> pmix_library_paths(std::string_view ompi_libdir, std::string_view pmix_prefix,
                                            std::string_view built_with);

/// Why it cannot be loaded; "": it is.
const std::string& pmix_trouble();
/// A function of it; null where there is no such library or no such function. Thread safety: all.
void* pmix_function(const char* name);

/// PMIx_Init; whether this process has a server. What goes there leaves at once from then on: PMIx writes
/// each message by itself and leaves Nagle's algorithm on, so that what follows a message that has no answer
/// waits until the server's kernel acknowledges that one, 40 ms later. MPI_Finalize ends with five such
/// messages.
bool pmix_begin(pmix_proc_t& self);
/// Where the server of such an address listens: "4711.0;tcp4://127.0.0.1:53337". Port 0: it says nothing of
/// TCP. Pure.
Endpoint pmix_server_of(const std::string& address);

/// PMIx's structures without its macros, which stand for different functions in each release.
pmix_proc_t pmix_proc(const char* job, pmix_rank_t rank);
pmix_info_t pmix_info(const char* key, bool value);
pmix_info_t pmix_info(const char* key, int value);
/// Of a value that PMIx gave: bytes, a string or a number.
void pmix_release(pmix_value_t* value);

}  // namespace ddl

/// `DDL_PMIX(PMIx_Commit)()`. What PMIx had from the first is there where the library is.
#define DDL_PMIX(name) reinterpret_cast<decltype(&name)>(ddl::pmix_function(#name))
