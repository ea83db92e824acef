// PMIx as it behaves under Open MPI 4's daemons (PMIx 4.2): nothing is asked about remote nodes by
// PMIx_Resolve_peers (it hangs), no events are used (they are not delivered); see pmix_get.hpp.
#include "core/bootstrap/pmix_exchange.hpp"

#include <fmt/format.h>
#include <pmix.h>

#include <utility>

#include "core/base/env.hpp"
#include "core/base/error.hpp"
#include "core/bootstrap/pmix_get.hpp"

namespace ddl {
namespace {

constexpr const char* kEndpointKey = "ddl.1.endpoint";

class PmixExchange : public Exchange {
 public:
  PmixExchange(const pmix_proc_t& self, double timeout_s, MpiExchange mpi)
      : self_(self), timeout_s_(static_cast<int>(timeout_s) + 1), mpi_(std::move(mpi)) {
    size_ = static_cast<Rank>(pmix_job_number(self_, PMIX_JOB_SIZE, timeout_s_).value_or(0));
    if (size_ == 0) throw Error("PMIx does not tell the size of the job", "", "set DDL_ENABLE=0");
  }
  ~PmixExchange() override { DDL_PMIX(PMIx_Finalize)(nullptr, 0); }

  Rank rank() const override { return static_cast<Rank>(self_.rank); }
  Rank size() const override { return size_; }
  HostCounts host_counts() {
    return {static_cast<int>(pmix_job_number(self_, PMIX_LOCAL_SIZE, timeout_s_).value_or(1)),
            static_cast<int>(pmix_job_number(self_, PMIX_NUM_NODES, timeout_s_).value_or(0))};
  }

  void start(std::span<const std::byte> mine) override {
    if (round_++ == 0)
      pmix_publish(kEndpointKey, mine);
    else
      mine_.assign(mine.begin(), mine.end());
  }

  std::optional<Answers> test() override {
    Answers answers;
    if (round_ > 1) return gather();
    for (Rank rank = 0; rank < size_; ++rank) answers.push_back(endpoint_of(rank));
    return answers;
  }

 private:
  Answers gather() {
    std::vector<std::byte> all(mine_.size() * static_cast<std::size_t>(size_));
    if (!mpi_.all_gather || !mpi_.all_gather(mine_, all.data()))
      throw Error("the MPI library cannot exchange what the ranks say");
    Answers answers;
    for (auto at = all.begin(); answers.size() < static_cast<std::size_t>(size_);) {
      auto end = at + static_cast<std::ptrdiff_t>(mine_.size());
      answers.emplace_back(std::in_place, at, end);
      at = end;
    }
    return answers;
  }

  // First what the exchange in MPI_Init brought; where that carries no data, the peer's server is asked.
  std::optional<std::vector<std::byte>> endpoint_of(Rank rank) {
    const pmix_proc_t peer = pmix_proc(self_.nspace, static_cast<pmix_rank_t>(rank));
    auto endpoint = get(peer, PMIX_OPTIONAL);
    if (!endpoint) endpoint = get(peer, PMIX_IMMEDIATE);
    if (endpoint || !fetch(peer)) return endpoint;
    return get(peer, PMIX_OPTIONAL);
  }

  // With PMIx 5 what a rank of another host has published stays at our server until a get waits for one of
  // its keys, and comes as a whole then. Who waits for a key that is never published disturbs the gets after
  // that: so it is one of the MPI library's own, which a rank without the engine has published too.
  bool fetch(const pmix_proc_t& peer) {
    const std::string key = mpi_.published_key ? mpi_.published_key() : "";
    if (key.empty()) return false;
    auto [status, value] = pmix_get(peer, key.c_str(), nullptr, timeout_s_);
    if (value) pmix_release(value);
    return status == PMIX_SUCCESS;
  }

  std::optional<std::vector<std::byte>> get(const pmix_proc_t& peer, const char* how) {
    auto [status, value] = pmix_get(peer, kEndpointKey, how, timeout_s_);
    // A late or failed answer is not "there is none": others may have got it, and would then decide
    // otherwise.
    if (status != PMIX_SUCCESS && status != PMIX_ERR_NOT_FOUND)
      throw Error(fmt::format("PMIx does not answer for rank {}: {}", peer.rank,
                              DDL_PMIX(PMIx_Error_string)(status)));
    if (!value) return std::nullopt;
    return pmix_take_bytes(value);
  }

  pmix_proc_t self_;
  int timeout_s_;
  Rank size_ = 0;
  const MpiExchange mpi_;
  int round_ = 0;                // that were begun
  std::vector<std::byte> mine_;  // of the round under way, after the first
};

}  // namespace

JobStart start_by_pmix(double timeout_s, MpiExchange mpi) {
  if (foreign_env("PMIX_NAMESPACE").empty()) return {};  // by hand: PMIx_Init would only find that out slowly
  if (!pmix_trouble().empty()) {
    if (launcher_rank() != "0") return {};  // that one says it for all
    throw Error("PMIx, by which the ranks find each other, cannot be loaded", pmix_trouble(),
                "install it on every host");
  }
  pmix_proc_t self;
  if (!pmix_begin(self)) return {};
  std::unique_ptr<PmixExchange> exchange;
  try {
    exchange = std::make_unique<PmixExchange>(self, timeout_s, std::move(mpi));
  } catch (...) {
    DDL_PMIX(PMIx_Finalize)(nullptr, 0);
    throw;
  }
  HostCounts hosts = exchange->host_counts();
  return {std::move(exchange), hosts};
}

}  // namespace ddl
