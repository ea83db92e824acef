// Under a sanitizer, thousands of cases and long buffers take minutes that tell nothing new: such tests take every so
// many of them there. The release build takes all.
#pragma once

namespace ddl::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

constexpr int thinned(int stride) { return kSanitized ? stride : 1; }

}  // namespace ddl::test
