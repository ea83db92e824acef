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

// A member that points to a text: netName, commName.
struct TextMember {
  unsigned since;  // version
  std::size_t offset;
};
constexpr TextMember kTexts[] = {{21700, 32}, {22700, 48}};

void copy_texts(const Head& head, GivenConfig& given) {
  for (const TextMember& member : kTexts) {
    const char* text = nullptr;
    if (head.version < member.since || given.bytes.size() < member.offset + sizeof(text)) continue;
    std::memcpy(&text, given.bytes.data() + member.offset, sizeof(text));
    if (!text) continue;
    text = given.texts.emplace_back(std::make_shared<std::string>(text))->c_str();
    std::memcpy(given.bytes.data() + member.offset, &text, sizeof(text));
  }
}

}  // namespace

GivenConfig copy_of(const ncclConfig_t* config) {
  if (!config) return {};
  Head head;
  int blocking = kUndefined;
  std::memcpy(&head, config, sizeof(head));
  if (head.magic != kMagic || head.size < sizeof(head) || head.size > kMost)
    return {{},
            {},
            Error::sentence("the ncclConfig_t was not initialised", "what it says means nothing",
                            "begin with NCCL_CONFIG_INITIALIZER")};
  auto* begin = static_cast<const std::byte*>(config);
  if (head.version >= kFirstVersion && head.size >= sizeof(head) + sizeof(blocking))
    std::memcpy(&blocking, begin + sizeof(head), sizeof(blocking));
  GivenConfig given{{begin, begin + head.size}, {}, ""};
  copy_texts(head, given);
  if (blocking != kUndefined && blocking != 0 && blocking != 1)
    given.trouble =
        "the ncclConfig_t has blocking = " + std::to_string(blocking) + ", which is neither 0 nor 1";
  return given;
}

}  // namespace ddl::nccl
