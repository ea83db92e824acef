// NCCL's functions, and those of our own communicators, as core/hierarchy is given them.
#pragma once

#include "core/hierarchy/library.h"

namespace ddl::nccl {

const ddl_library& nccl_library();

}  // namespace ddl::nccl
