#include "core/bootstrap/pmix_job_facts.hpp"

#include <fmt/format.h>
#include <pmix.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "core/base/env.hpp"
#include "core/bootstrap/pmix_get.hpp"

namespace ddl {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankFacts, rank, host, local_rank, locality, cpuset)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DeviceFacts, name, id, type, min_distance, max_distance)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(JobFacts, in_job, job, rank, size, hosts, local_peers, ranks, topology,
                                   distances, notes)

namespace {

constexpr int kGetTimeoutSeconds = 5;
constexpr std::chrono::seconds kLimit{10};
constexpr Rank kMaxRanksListed = 100'000;

// Runs a question that may never come back in a thread of its own; nothing when it does not answer in time.
// The thread is then abandoned: it owns all that it uses.
template <class Answer>
std::optional<Answer> within_limit(std::function<Answer()> question) {
  auto promise = std::make_shared<std::promise<Answer>>();
  std::future<Answer> answer = promise->get_future();
  std::thread([promise, question = std::move(question)] { promise->set_value(question()); }).detach();
  if (answer.wait_for(kLimit) != std::future_status::ready) return std::nullopt;
  return answer.get();
}

std::string reason(pmix_status_t status) {
  auto* const text = DDL_PMIX(PMIx_Error_string);
  return text ? text(status) : "that there is no library of it";
}

// Local, bounded questions about the job (rank PMIX_RANK_WILDCARD) or one rank.
class Answers {
 public:
  explicit Answers(const char* job) : job_(job) {}

  std::string text(pmix_rank_t rank, const char* key) const {
    return ask<std::string>(rank, key,
                            [](const pmix_value_t& value) -> std::optional<std::string> {
                              if (value.type != PMIX_STRING || !value.data.string) return std::nullopt;
                              return value.data.string;
                            })
        .value_or("");
  }

  std::optional<int> number(pmix_rank_t rank, const char* key) const {
    return ask<int>(rank, key, [](const pmix_value_t& value) -> std::optional<int> {
      switch (value.type) {
        case PMIX_UINT16:
          return value.data.uint16;
        case PMIX_UINT32:
          return static_cast<int>(value.data.uint32);
        case PMIX_INT:
          return value.data.integer;
        default:
          return std::nullopt;
      }
    });
  }

 private:
  template <class Value, class Read>
  std::optional<Value> ask(pmix_rank_t rank, const char* key, Read read) const {
    const pmix_proc_t whose = pmix_proc(job_.c_str(), rank);
    pmix_value_t* found = pmix_get(whose, key, PMIX_OPTIONAL, kGetTimeoutSeconds).second;
    if (!found) return std::nullopt;
    std::optional<Value> value = read(*found);
    pmix_release(found);
    return value;
  }

  std::string job_;
};

std::vector<std::string> words_of(const std::string& list) {
  return list.empty() ? std::vector<std::string>{} : split(list, ',');
}

void read_job(const Answers& answers, JobFacts& facts) {
  facts.size = answers.number(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE).value_or(0);
  facts.hosts = words_of(answers.text(PMIX_RANK_WILDCARD, PMIX_NODE_LIST));
  for (const std::string& peer : words_of(answers.text(PMIX_RANK_WILDCARD, PMIX_LOCAL_PEERS)))
    facts.local_peers.push_back(static_cast<Rank>(std::strtol(peer.c_str(), nullptr, 10)));
  if (facts.size == 0) facts.notes.push_back("job size unknown: PMIx does not tell PMIX_JOB_SIZE");
  if (facts.hosts.empty()) facts.notes.push_back("host list unknown: PMIx does not tell PMIX_NODE_LIST");
  if (facts.local_peers.empty())
    facts.notes.push_back("local peers unknown: PMIx does not tell PMIX_LOCAL_PEERS");
}

void read_ranks(const Answers& answers, JobFacts& facts) {
  for (Rank rank = 0; rank < std::min(facts.size, kMaxRanksListed); ++rank) {
    pmix_rank_t whose = static_cast<pmix_rank_t>(rank);
    RankFacts about;
    about.rank = rank;
    about.host = answers.text(whose, PMIX_HOSTNAME);
    about.local_rank = answers.number(whose, PMIX_LOCAL_RANK).value_or(-1);
    about.locality = answers.text(whose, PMIX_LOCALITY_STRING);
    about.cpuset = answers.text(whose, PMIX_CPUSET);
    facts.ranks.push_back(about);
  }
}

struct HardwareAnswer {
  std::string topology;
  std::vector<DeviceFacts> distances;
  std::vector<std::string> notes;
};

void read_distances(pmix_topology_t& topology, HardwareAnswer& answer) {
  pmix_cpuset_t bound{};
  pmix_status_t status = DDL_PMIX(PMIx_Get_cpuset)(&bound, PMIX_CPUBIND_PROCESS);
  if (status != PMIX_SUCCESS) {
    answer.notes.push_back(fmt::format("distances unknown: PMIx_Get_cpuset says {}", reason(status)));
    return;
  }
  pmix_device_distance_t* found = nullptr;  // never freed: a question is asked once
  std::size_t count = 0;
  status = DDL_PMIX(PMIx_Compute_distances)(&topology, &bound, nullptr, 0, &found, &count);
  if (status != PMIX_SUCCESS)
    answer.notes.push_back(fmt::format("distances unknown: PMIx_Compute_distances says {}", reason(status)));
  for (std::size_t i = 0; status == PMIX_SUCCESS && i < count; ++i)
    answer.distances.push_back({found[i].osname ? found[i].osname : "", found[i].uuid ? found[i].uuid : "",
                                DDL_PMIX(PMIx_Device_type_string)(found[i].type), found[i].mindist,
                                found[i].maxdist});
  if (status == PMIX_SUCCESS && count == 0)
    answer.notes.push_back("PMIx_Compute_distances answers, but knows no device");
  DDL_PMIX(PMIx_Cpuset_destruct)(&bound);
}

HardwareAnswer read_hardware() {
  HardwareAnswer answer;
  pmix_topology_t topology{};
  if (!DDL_PMIX(PMIx_Load_topology) || !DDL_PMIX(PMIx_Get_cpuset) || !DDL_PMIX(PMIx_Compute_distances) ||
      !DDL_PMIX(PMIx_Device_type_string) || !DDL_PMIX(PMIx_Cpuset_destruct)) {
    answer.notes.push_back("topology unknown: this PMIx is older than 4");
    return answer;
  }
  pmix_status_t status = DDL_PMIX(PMIx_Load_topology)(&topology);
  if (status != PMIX_SUCCESS) {
    answer.notes.push_back(fmt::format("PMIx_Load_topology says {}", reason(status)));
    return answer;
  }
  // The topology itself belongs to PMIx, which keeps it for the life of the process.
  answer.topology = fmt::format("loaded, source {}", topology.source ? topology.source : "not named");
  read_distances(topology, answer);
  return answer;
}

void take_hardware(JobFacts& facts) {
  std::optional<HardwareAnswer> answer = within_limit<HardwareAnswer>(read_hardware);
  if (!answer) {
    facts.notes.push_back(
        fmt::format("PMIx_Load_topology or PMIx_Compute_distances did not answer in {} s", kLimit.count()));
    return;
  }
  facts.topology = answer->topology;
  facts.distances = answer->distances;
  facts.notes.insert(facts.notes.end(), answer->notes.begin(), answer->notes.end());
}

struct Started {
  pmix_status_t status = PMIX_ERROR;
  pmix_proc_t self{};
};

Started start_pmix() {
  Started started;
  auto* const begin = DDL_PMIX(PMIx_Init);
  started.status = begin ? begin(&started.self, nullptr, 0) : PMIX_ERR_NOT_FOUND;
  return started;
}

}  // namespace

JobFacts read_job_facts() {
  JobFacts facts;
  if (foreign_env("PMIX_NAMESPACE").empty()) {
    facts.notes.push_back("not in a job: PMIX_NAMESPACE is not set");
    return facts;
  }
  std::optional<Started> started = within_limit<Started>(start_pmix);
  if (!started || started->status != PMIX_SUCCESS) {
    facts.notes.push_back(started ? fmt::format("PMIx_Init says {}", reason(started->status))
                                  : fmt::format("PMIx_Init did not answer in {} s", kLimit.count()));
    return facts;
  }
  facts.in_job = true;
  facts.job = started->self.nspace;
  facts.rank = static_cast<Rank>(started->self.rank);
  Answers answers(started->self.nspace);
  read_job(answers, facts);
  read_ranks(answers, facts);
  take_hardware(facts);
  if (!within_limit<pmix_status_t>([] { return DDL_PMIX(PMIx_Finalize)(nullptr, 0); }))
    facts.notes.push_back("PMIx_Finalize did not come back");
  return facts;
}

nlohmann::json json_of(const JobFacts& facts) { return facts; }

}  // namespace ddl
