#include "interpose/nccl/config.hpp"

#include <climits>
#include <cstring>
#include <optional>

#include "core/base/env.hpp"
#include "core/base/error.hpp"

namespace ddl::nccl {
namespace {

constexpr unsigned kMagic = 0xcafebeef;
constexpr std::size_t kMost = 4096;  // bytes; that of NCCL 2.28 has 88
constexpr int kUndefined = INT_MIN;

// Two kernels of 16 and a large one of the program's whole communicator fit on the 80 multiprocessors of a
// V100 and on all that came after it; 16 CTAs are more than a network needs, and near what NVLink does.
constexpr int kMostCtas = 16;

// The beginning of ncclConfig_t; a program's ends earlier or later, with the version of its NCCL.
struct Config {
  std::size_t size = 0;
  unsigned magic = kMagic, version = 0;
  int blocking = 1;  // since 2.14
  int cga_cluster_size = kUndefined, min_ctas = kUndefined, max_ctas = kUndefined;
  const char* net_name = nullptr;   // since 2.17
  int split_share = 0;              // since 2.18
  int traffic_class = kUndefined;   // of 2.25; there was nothing in its place before
  const char* comm_name = nullptr;  // since 2.27
};
constexpr unsigned kBlockingSince = 21400, kNetNameSince = 21700, kSplitShareSince = 21800,
                   kCommNameSince = 22700;
constexpr std::size_t kHeadBytes = offsetof(Config, blocking);
constexpr std::size_t kBytesOf218 = offsetof(Config, comm_name);
static_assert(kHeadBytes == 16 && kBytesOf218 == 48);

// A member of a configuration that has it, else nothing.
template <class Member>
std::optional<Member> read(std::span<const std::byte> config, std::size_t offset) {
  Member member;
  if (config.size() < offset + sizeof(member)) return std::nullopt;
  std::memcpy(&member, config.data() + offset, sizeof(member));
  return member;
}

std::optional<int> blocking_of(std::span<const std::byte> config) {
  return read<int>(config, offsetof(Config, blocking));
}

// A member that points to a text.
struct TextMember {
  unsigned since;  // version
  std::size_t offset;
};
constexpr TextMember kTexts[] = {{kNetNameSince, offsetof(Config, net_name)},
                                 {kCommNameSince, offsetof(Config, comm_name)}};

void copy_texts(unsigned version, GivenConfig& given) {
  for (const TextMember& member : kTexts) {
    const char* text =
        version < member.since ? nullptr : read<const char*>(given.bytes, member.offset).value_or(nullptr);
    if (!text) continue;
    text = given.texts.emplace_back(std::make_shared<std::string>(text))->c_str();
    std::memcpy(given.bytes.data() + member.offset, &text, sizeof(text));
  }
}

}  // namespace

GivenConfig copy_of(const ncclConfig_t* config) {
  if (!config) return {};
  auto* begin = static_cast<const std::byte*>(config);
  const std::span head(begin, kHeadBytes);
  const std::size_t size = *read<std::size_t>(head, offsetof(Config, size));
  const unsigned version = *read<unsigned>(head, offsetof(Config, version));
  if (*read<unsigned>(head, offsetof(Config, magic)) != kMagic || size < kHeadBytes || size > kMost)
    return {{},
            {},
            Error::sentence("the ncclConfig_t was not initialised", "what it says means nothing",
                            "begin with NCCL_CONFIG_INITIALIZER")};
  GivenConfig given{{begin, begin + size}, {}, ""};
  copy_texts(version, given);
  const int blocking = version < kBlockingSince ? kUndefined : blocking_of(given.bytes).value_or(kUndefined);
  if (blocking != kUndefined && blocking != 0 && blocking != 1)
    given.trouble =
        "the ncclConfig_t has blocking = " + std::to_string(blocking) + ", which is neither 0 nor 1";
  return given;
}

bool is_blocking(std::span<const std::byte> program_config) {
  return foreign_env("NCCL_COMM_BLOCKING") != "0" && blocking_of(program_config) != 0;
}

std::vector<std::byte> capped_config(std::span<const std::byte> program_config) {
  Config config;
  config.size = kBytesOf218;
  config.version = kSplitShareSince;
  const bool is_known = program_config.size() >= kBytesOf218;
  if (is_known) std::memcpy(static_cast<void*>(&config), program_config.data(), kBytesOf218);
  config.blocking = 1;
  config.split_share = 0;
  if (config.max_ctas < 1 || config.max_ctas > kMostCtas) config.max_ctas = kMostCtas;
  if (config.min_ctas > config.max_ctas) config.min_ctas = config.max_ctas;
  std::vector<std::byte> made(program_config.begin(), program_config.end());
  if (!is_known) made.resize(kBytesOf218);
  std::memcpy(made.data(), &config, kBytesOf218);
  return made;
}

}  // namespace ddl::nccl
