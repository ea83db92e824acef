// PMIx as it behaves under Open MPI 4's daemons (PMIx 4.2): a key is put once and never again (the second
// value may not be seen), nothing is asked about remote nodes by PMIx_Resolve_peers (it hangs), no events are
// used (they are not delivered), and every get has a timeout.
#include "core/bootstrap/pmix_bootstrap.hpp"

#include <fmt/format.h>
#include <pmix.h>

#include <cstdlib>
#include <cstring>
#include <utility>

#include "core/base/env.hpp"
#include "core/base/error.hpp"

namespace ddl {
namespace {

constexpr const char* kCardKey = "ddl.1.card";

class PmixBootstrap : public Bootstrap {
 public:
  PmixBootstrap(const pmix_proc_t& self, double timeout_s)
      : self_(self), timeout_s_(static_cast<int>(timeout_s) + 1) {
    size_ = static_cast<Rank>(number(PMIX_JOB_SIZE).value_or(0));
    if (size_ == 0) throw Error("PMIx does not tell the size of the job", "", "set DDL_ENABLE=0");
    local_size_ = static_cast<int>(number(PMIX_LOCAL_SIZE).value_or(1));
    hosts_ = static_cast<int>(number(PMIX_NUM_NODES).value_or(0));
  }
  ~PmixBootstrap() override { PMIx_Finalize(nullptr, 0); }

  Rank rank() const override { return static_cast<Rank>(self_.rank); }
  Rank size() const override { return size_; }
  int local_size() const override { return local_size_; }
  int hosts() const override { return hosts_; }

  void publish(std::span<const std::byte> card) override {
    pmix_value_t value;
    PMIX_VALUE_CONSTRUCT(&value);
    value.type = PMIX_BYTE_OBJECT;
    value.data.bo.size = card.size();
    value.data.bo.bytes = static_cast<char*>(std::malloc(card.size()));
    std::memcpy(value.data.bo.bytes, card.data(), card.size());
    pmix_status_t status = PMIx_Put(PMIX_GLOBAL, kCardKey, &value);
    PMIX_VALUE_DESTRUCT(&value);
    if (status == PMIX_SUCCESS) status = PMIx_Commit();
    if (status != PMIX_SUCCESS)
      throw Error(fmt::format("PMIx cannot publish: {}", PMIx_Error_string(status)));
  }

  // First what the exchange in MPI_Init brought; where that carries no data, the peer's server is asked.
  std::optional<std::vector<std::byte>> card_of(Rank rank) override {
    auto card = get(rank, PMIX_OPTIONAL);
    return card ? card : get(rank, PMIX_IMMEDIATE);
  }

 private:
  std::optional<std::vector<std::byte>> get(Rank rank, const char* how) {
    pmix_proc_t peer;
    PMIX_LOAD_PROCID(&peer, self_.nspace, static_cast<pmix_rank_t>(rank));
    auto [status, value] = fetch(peer, kCardKey, how);
    // A late or failed answer is not "there is none": others may have got it, and would then decide
    // otherwise.
    if (status != PMIX_SUCCESS && status != PMIX_ERR_NOT_FOUND)
      throw Error(fmt::format("PMIx does not answer for rank {}: {}", rank, PMIx_Error_string(status)));
    if (!value) return std::nullopt;
    std::optional<std::vector<std::byte>> card;
    if (value->type == PMIX_BYTE_OBJECT) {
      const auto* begin = reinterpret_cast<const std::byte*>(value->data.bo.bytes);
      card.emplace(begin, begin + value->data.bo.size);
    }
    PMIX_VALUE_RELEASE(value);
    return card;
  }

  std::optional<std::uint64_t> number(const char* key) {
    pmix_proc_t job;
    PMIX_LOAD_PROCID(&job, self_.nspace, PMIX_RANK_WILDCARD);
    pmix_value_t* value = fetch(job, key, PMIX_OPTIONAL).second;
    if (!value) return std::nullopt;
    std::uint32_t result = value->type == PMIX_UINT32 ? value->data.uint32 : 0;
    PMIX_VALUE_RELEASE(value);
    return result;
  }

  std::pair<pmix_status_t, pmix_value_t*> fetch(const pmix_proc_t& whose, const char* key, const char* how) {
    bool yes = true;
    pmix_info_t info[2];
    PMIX_INFO_LOAD(&info[0], how, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[1], PMIX_TIMEOUT, &timeout_s_, PMIX_INT);
    pmix_value_t* value = nullptr;
    pmix_status_t status = PMIx_Get(&whose, key, info, 2, &value);
    PMIX_INFO_DESTRUCT(&info[0]);
    PMIX_INFO_DESTRUCT(&info[1]);
    return {status, status == PMIX_SUCCESS ? value : nullptr};
  }

  pmix_proc_t self_;
  int timeout_s_;
  Rank size_ = 0;
  int local_size_ = 1, hosts_ = 0;
};

}  // namespace

std::unique_ptr<Bootstrap> make_pmix_bootstrap(double timeout_s) {
  if (foreign_env("PMIX_NAMESPACE").empty())
    return nullptr;  // started by hand: PMIx_Init would only find that out slowly
  pmix_proc_t self;
  if (PMIx_Init(&self, nullptr, 0) != PMIX_SUCCESS) return nullptr;
  try {
    return std::make_unique<PmixBootstrap>(self, timeout_s);
  } catch (...) {
    PMIx_Finalize(nullptr, 0);
    throw;
  }
}

}  // namespace ddl
