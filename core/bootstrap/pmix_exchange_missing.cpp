// Instead of pmix_exchange.cpp where there is no PMIx to build with: no process is in a job that it started.
#include "core/bootstrap/pmix_exchange.hpp"

namespace ddl {

JobStart start_by_pmix(double /*timeout_s*/, AllGather /*all_gather*/) { return {}; }

}  // namespace ddl
