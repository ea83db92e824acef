#include "core/bootstrap/job_place.hpp"

#include <fmt/format.h>

#include <string_view>

#include "core/base/env.hpp"
#include "core/base/error.hpp"
#include "core/base/hash.hpp"

namespace ddl {
namespace {

constexpr std::uint16_t kUsualPort = 29501;
constexpr std::uint64_t kMostRanks = 1'000'000, kMostPorts = 65'535;
constexpr const char* kCure = "start with ddlrun or torchrun, or set RANK, WORLD_SIZE and MASTER_ADDR";

std::uint64_t number_in(const char* name, const std::string& text, std::uint64_t most) {
  try {
    if (std::uint64_t number = parse_number(text); number <= most) return number;
  } catch (const UsageError&) {
  }
  throw UsageError(fmt::format("{}={} is not a number up to {}", name, text, most), "the ranks meet by it",
                   kCure);
}

Rank rank_or(Rank asked, const char* name, const char* what, const std::string& value) {
  if (asked >= 0) return asked;
  if (value.empty()) throw UsageError(fmt::format("{} is not set", name), what, kCure);
  return static_cast<Rank>(number_in(name, value, kMostRanks));
}

// In two halves of different beginnings.
RendezvousId::Token token_of(const std::string& text) {
  RendezvousId::Token token{};
  const std::uint64_t hash[2] = {hash_of(text), hash_of(text, 0x84222325cbf29ce4u)};
  for (std::size_t i = 0; i < token.size(); ++i)
    token[i] = static_cast<std::uint8_t>(hash[i / 8] >> (i % 8 * 8));
  return token;
}

}  // namespace

JobPlace place_of(const JobAsked& asked, std::uint64_t port, std::uint32_t before,
                  const std::function<std::string(const char*)>& variable) {
  JobPlace place;
  place.rank = rank_or(asked.rank, "RANK", "it says which rank this process is", variable("RANK"));
  place.size = rank_or(asked.size, "WORLD_SIZE", "it says how many ranks there are", variable("WORLD_SIZE"));
  if (place.size < 1 || place.rank >= place.size)
    throw UsageError(fmt::format("rank {} of {} does not exist", place.rank, place.size),
                     "ranks are numbered from 0", "correct RANK and WORLD_SIZE");
  place.address = asked.address.empty() ? variable("MASTER_ADDR") : asked.address;
  if (place.address.empty() && place.size > 1)
    throw UsageError("MASTER_ADDR is not set", "it says where rank 0 is", kCure);
  const std::string master = variable("MASTER_PORT");
  if (asked.port != 0)
    place.port = asked.port;
  else if (port != 0)
    place.port = static_cast<std::uint16_t>(number_in("DDL_PORT", std::to_string(port), kMostPorts));
  else if (!master.empty())
    place.port = static_cast<std::uint16_t>(number_in("MASTER_PORT", master, kMostPorts - 1) + 1);
  else
    place.port = kUsualPort;
  place.token =
      token_of(fmt::format("{} {} {} {} {} {}", place.address, place.port, place.size, before,
                           variable("TORCHELASTIC_RUN_ID"), variable("TORCHELASTIC_RESTART_COUNT")));
  return place;
}

}  // namespace ddl
