// How the ranks of a communicator of our own come together: what they tell each other, and what they conclude
// alike.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/bootstrap/rendezvous_exchange.hpp"
#include "core/stream/device.hpp"
#include "core/stream/stream_communicator.hpp"
#include "core/stream/unique_id.hpp"

namespace ddl {
namespace {

constexpr const char* kNeedsAll = "a communicator needs all its ranks";

// What belongs to the program's whole job, or to who measures it: no business of one communicator.
Env for_one_communicator(Env env) {
  env.options.clear();
  env.report.clear();
  env.tune_cache.clear();
  return env;
}

constexpr int kMostWorkers = 4;  // three keep up with two copies at a time over PCIe 5

// What the ranks tell each other before the first call.
struct Offer {
  // Rank 0's become the identities of the engine's communicators.
  std::array<CommId, kMostWorkers> of_worker{};
  CommId graphs = 0;
  int workers = 1;
  HostIndex host = 0;
  pid_t process = 0;
  bool host_functions = false;
  bool captures = false;  // calls can be captured
};

// What a rank brings to a split.
struct SplitPart {
  int has_color = 0, color = 0, key = 0;
  Rank rank = 0;
  auto order() const { return std::pair(key, rank); }
};

// Pretended hosts of some of the ranks, as DDL_FAKE_HOSTS has them: ranks side by side on one are one.
std::vector<int> hosts_of(const std::vector<SplitPart>& members, const JobMap& job_map) {
  std::vector<int> sizes;
  HostIndex last = -1;
  for (const SplitPart& member : members) {
    HostIndex host = job_map.host_of_rank[static_cast<std::size_t>(member.rank)];
    if (host != last) sizes.push_back(0);
    ++sizes.back();
    last = host;
  }
  return sizes;
}

// "ranks 0 and 1 are in one process"; "" where every rank has its own.
std::string shared_process(const std::vector<Offer>& offers) {
  for (std::size_t b = 0; b < offers.size(); ++b)
    for (std::size_t a = 0; a < b; ++a)
      if (offers[a].process == offers[b].process && offers[a].host == offers[b].host)
        return fmt::format("ranks {} and {} are in one process", a, b);
  return {};
}

// What all ranks find in the way, alike; "" when nothing is.
std::string trouble_in(const std::vector<Offer>& offers) {
  const std::string shared = shared_process(offers);
  auto waits_in_functions = [](const Offer& offer) { return offer.host_functions; };
  if (shared.empty() || std::none_of(offers.begin(), offers.end(), waits_in_functions)) return {};
  return Error::sentence(shared,
                         "their GPU has no stream memory operations, without which one may keep the other "
                         "waiting for ever",
                         "use a process per rank");
}

// Why no call can be captured into a graph, alike on all ranks; "" when they can.
std::string trouble_with_graphs(const std::vector<Offer>& offers) {
  if (std::string shared = shared_process(offers); !shared.empty())
    return shared + ", where one would keep the other from replaying it";
  if (std::any_of(offers.begin(), offers.end(), [](const Offer& offer) { return !offer.captures; }))
    return "a GPU has no stream memory operations, or its driver is older than CUDA 12.3";
  return {};
}

}  // namespace

StreamCommunicator::StreamCommunicator(std::shared_ptr<RendezvousClient> rendezvous,
                                       const RendezvousId::Token& group, cuda::Context context, Env env,
                                       std::string who)
    : context_(context),
      who_(std::move(who)),
      session_(start_at(rendezvous), options(std::move(env))),
      watch_(rendezvous),
      graph_host_(work_in(nullptr)) {
  owner_.group = group;
  join();
  find_device_path();
}

SessionOptions StreamCommunicator::options(Env env) {
  SessionOptions options;
  options.env = for_one_communicator(std::move(env));
  options.speaks_for_process = who_.empty();
  options.progress = [this] {
    if (std::string gone = watch_.overdue(); !gone.empty()) session_.engine().fail(gone);
  };
  options.also_needs = [this] { pin(); };
  return options;
}

void StreamCommunicator::join() {
  const Conclusion& conclusion = session_.join();
  std::string who = conclusion.of_rank < 0 ? "" : fmt::format("rank {}: ", conclusion.of_rank);
  if (!conclusion.joined) throw Error(who + conclusion.reason, kNeedsAll);
  agree_on_identities();
}

void StreamCommunicator::agree_on_identities() {
  Offer mine;
  for (CommId& id : mine.of_worker) id = session_.fresh_id();
  mine.graphs = session_.fresh_id();
  mine.workers = most_workers();
  mine.host = session_.job_map().host_of_rank[static_cast<std::size_t>(session_.rank())];
  mine.process = ::getpid();
  mine.host_functions = ordering_ == FlagOrdering::kHostFunctions;
  mine.captures = !mine.host_functions && gpu::driver()->capture_info;
  std::vector<Offer> offers = watch_.all_of(mine);
  if (std::string wrong = trouble_in(offers); !wrong.empty()) throw Error(wrong, kNeedsAll);
  std::vector<Rank> members(offers.size());
  std::iota(members.begin(), members.end(), 0);
  std::shared_ptr<PlanStore> plans = session_.plans_of(members, session_.rank());
  // Where ranks share a process one thread may make the calls of several, and must not be kept by a full
  // queue: few chunks.
  int workers = shared_process(offers).empty() ? kMostWorkers : 1;
  for (const Offer& offer : offers) workers = std::min(workers, offer.workers);
  for (int worker = 0; worker < workers; ++worker) {
    of_worker_.push_back(
        &session_.engine().create(offers[0].of_worker[static_cast<std::size_t>(worker)], plans));
    host_.push_back(work_in(of_worker_.back()));
  }
  staged_->use_workers(static_cast<std::uint32_t>(workers));
  find_fusion(plans->members());
  why_no_graphs_ = trouble_with_graphs(offers);
  if (!why_no_graphs_.empty()) return;
  graphs_ = &session_.engine().create(offers[0].graphs, plans);
  graph_host_ = work_in(graphs_);
  captured_ = std::make_unique<CapturedCalls>(*gpu::driver(), context_);
}

bool StreamCommunicator::is_on_one_host() const { return session_.job_map().hosts() == 1; }

// The wire between hosts is slower than one of them. Within one the program wants cores too.
int StreamCommunicator::most_workers() const {
  if (!is_on_one_host() || ordering_ == FlagOrdering::kHostFunctions) return 1;
  if (const std::uint64_t wanted = session_.env().gpu_host_threads) return static_cast<int>(wanted);
  return std::clamp(session_.job_map().cores[0] / (2 * session_.size()), 1, kMostWorkers);
}

void StreamCommunicator::pin() {
  StagedOptions options;
  options.most_blocks = static_cast<std::uint32_t>(session_.size());
  options.meanwhile = [this] { return look_after_device(); };
  options.overdue = [this](const char* name) {
    std::string gone = watch_.overdue();
    return gone.empty() ? gone : fail(Trouble::peer, fmt::format("{} failed: {}", name, gone)).text;
  };
  if (!cuda::has_stream_memory_operations(*gpu::driver(), gpu::device_of(context_)))
    ordering_ = options.ordering = FlagOrdering::kHostFunctions;
  staged_ = std::make_unique<StagedCalls>(*gpu::driver(), context_, options);
}

StreamCommunicator::~StreamCommunicator() {
  captured_.reset();
  if (!staged_->finish() || state().trouble != Trouble::none)
    if (host_path_) host_path_->abandon();
  staged_.reset();
  if (device_ && state().trouble != Trouble::none) device_->let_go();
  stream_owners::forget(owner_);
  for (Communicator* one : of_worker_) session_.engine().destroy(*one);
  if (graphs_) session_.engine().destroy(*graphs_);
}

void StreamCommunicator::find_device_path() {
  DevicePath::Agreed agreed = DevicePath::agree_on(
      watch_, context_,
      {session_.rank(), session_.size(), is_on_one_host(), session_.env().gpu_staging_bytes});
  device_ = std::move(agreed.path);
  if (!device_ && is_on_one_host() && session_.size() <= static_cast<Rank>(kernels::kMostBuffers))
    host_path_ = HostPath::agree_on(watch_, context_, session_.rank(),
                                    ordering_ == FlagOrdering::kStreamMemoryOperations);
  if (host_path_) staged_->share(host_path_->staging());
  if (session_.rank() != 0 || session_.size() == 1 || session_.env().verbose == 0 || !who_.empty()) return;
  std::string where = device_ ? "GPU" : "host, because " + agreed.why;
  if (device_ && device_->least_bytes() > 0)
    where += fmt::format(
        ", those of less than {} bytes on the host, because its processes have the GPU in turn (MPS is not "
        "running)",
        device_->least_bytes());
  log_info(fmt::format("a communicator of {} ranks: all-reduces on the {}", session_.size(), where));
}

// Two rounds: who is of my color, and where they meet, which the first of them says.
std::unique_ptr<StreamCommunicator> StreamCommunicator::split(std::optional<int> color, int key) {
  const SplitPart mine{color.has_value(), color.value_or(0), key, session_.rank()};
  std::vector<SplitPart> members;
  for (const SplitPart& part : watch_.all_of(mine))
    if (part.has_color && part.color == mine.color) members.push_back(part);
  std::sort(members.begin(), members.end(),
            [](const SplitPart& a, const SplitPart& b) { return a.order() < b.order(); });
  auto me = std::find_if(members.begin(), members.end(),
                         [&](const SplitPart& one) { return one.rank == mine.rank; });
  RendezvousId id;
  if (color && me == members.begin()) id = make_unique_id(session_.env());
  std::vector<RendezvousId> ids = watch_.all_of(id);
  if (!color) return nullptr;
  id = ids[static_cast<std::size_t>(members.front().rank)];
  auto rendezvous =
      std::make_shared<RendezvousClient>(id, static_cast<Rank>(me - members.begin()),
                                         static_cast<Rank>(members.size()), session_.env().timeout_s);
  Env env = session_.env();
  if (!env.fake_hosts.empty()) env.fake_hosts = hosts_of(members, session_.job_map());
  return std::make_unique<StreamCommunicator>(std::move(rendezvous), id.token, context_, std::move(env));
}

}  // namespace ddl
