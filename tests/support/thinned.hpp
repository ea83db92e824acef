// Under a sanitizer, pure code over thousands of cases takes minutes that tell nothing new: such tests take
// every so many of them there. The release build takes all.
#pragma once

namespace ddl::test {

/// `stride` under a sanitizer, else 1.
constexpr int thinned(int stride) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return stride;
#else
  return static_cast<void>(stride), 1;
#endif
}

}  // namespace ddl::test
