#pragma once

#include <memory>

#include "core/bootstrap/bootstrap.hpp"

namespace ddl {

/// The bootstrap of a process that a PMIx server started; null when there is none (a process outside any
/// job). PMIx counts its users, so the MPI library's own use is not disturbed, in whatever order both begin
/// and end.
std::unique_ptr<Bootstrap> make_pmix_bootstrap(double timeout_s);

}  // namespace ddl
