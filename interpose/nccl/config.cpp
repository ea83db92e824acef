#include "interpose/nccl/config.hpp"

#include <climits>
#include <cstring>

#include "core/base/error.hpp"

namespace ddl::nccl {
namespace {

constexpr unsigned kMagic = 0xcafebeef;
constexpr unsigned kFirstVersion = 21400;  // that had `blocking`
constexpr std::size_t kMost = 4096;        // bytes; that of NCCL 2.28 has 88
constexpr int kUndefined = INT_MIN;

// The beginning of all of them. Others follow, up to `size`.
struct Head {
  std::size_t size;
  unsigned magic, version;
};

}  // namespace

GivenConfig copy_of(const ncclConfig_t* config) {
  if (!config) return {};
  Head head;
  int blocking = kUndefined;
  std::memcpy(&head, config, sizeof(head));
  if (head.magic != kMagic || head.size < sizeof(head) || head.size > kMost)
    return {{},
            Error::sentence("the ncclConfig_t was not initialised", "what it says means nothing",
                            "begin with NCCL_CONFIG_INITIALIZER")};
  auto* begin = static_cast<const std::byte*>(config);
  if (head.version >= kFirstVersion && head.size >= sizeof(head) + sizeof(blocking))
    std::memcpy(&blocking, begin + sizeof(head), sizeof(blocking));
  GivenConfig given{{begin, begin + head.size}, ""};
  if (blocking != kUndefined && blocking != 0 && blocking != 1)
    given.trouble =
        "the ncclConfig_t has blocking = " + std::to_string(blocking) + ", which is neither 0 nor 1";
  return given;
}

}  // namespace ddl::nccl
