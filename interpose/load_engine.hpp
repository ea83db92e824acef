// How the fronts load the engine, libddl.so, from beside themselves.
#pragma once

#include "core/api/engine_api.h"

namespace ddl {

/// Null, and *why, when it cannot be loaded or is another version.
const ddl_engine_api* load_engine(const char** why);

}  // namespace ddl
