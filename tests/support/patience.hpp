// How long tests wait for what comes in any case.
#pragma once

namespace ddl::test {

inline constexpr double kLong_s = 300;  // only against hanging

}  // namespace ddl::test
