#include "core/session/session.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/device/device_memory.hpp"
#include "core/topology/numa.hpp"
#include "core/tune/cache_file.hpp"

namespace ddl {
namespace {

std::vector<int> allowed_cpus() {
  std::vector<int> cpus;
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

// As Linux names it on this architecture; "" where it does not.
std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (std::size_t colon = line.find(": "); line.starts_with("model name") && colon != std::string::npos)
      return line.substr(colon + 2);
  return {};
}

// "10.0.0.0/24", or "10.0.0.0/24 at 100 Gbit/s".
std::vector<std::string> rails_in_words(const Census& census) {
  std::vector<std::string> words = census.lanes;
  for (std::size_t lane = 0; lane < words.size(); ++lane)
    if (census.lane_gbit[lane] > 0) words[lane] += fmt::format(" at {:g} Gbit/s", census.lane_gbit[lane]);
  return words;
}

}  // namespace

Session::Session(std::unique_ptr<Bootstrap> bootstrap, const Env& env, const std::string& trouble, bool progress_hook)
    : bootstrap_(std::move(bootstrap)), env_(env) {
  bootstrap_->publish(pack(make_card(trouble, progress_hook)));
}

Session::~Session() {
  if (memory_ && rank() == 0) save_tuning();
  if (wire_) wire_->close();  // before the engine: what the wire still sends belongs to its operations
}

Card Session::make_card(const std::string& trouble, bool progress_hook) {
  Card card;
  static_cast<HostIdentity&>(card) = host_identity();
  card.cpus = allowed_cpus();
  card.numa_node = numa_node_of(card.cpus);
  card.fake_hosts = env_.fake_hosts;
  card.progress_hook = progress_hook;
  card.staging = env_.staging_bytes;
  card.segment = env_.segment_bytes;
  card.report = !env_.report.empty();
  card.options = env_.options;
  card.deterministic = env_.deterministic;
  if (bootstrap_->rank() == 0) {
    CacheText cache = read_cache_file(env_.tune_cache);
    card.tuning = std::move(cache.text);
    cache_trouble_ = std::move(cache.trouble);
    card.cpu_model = cpu_model();
  }
  card.trouble = env_.enable ? trouble : "DDL_ENABLE=0";
  if (!card.trouble.empty()) return card;
  try {
    card.pid = ::getpid();
    card.nonce = std::random_device{}() | std::uint64_t{std::random_device{}()} << 32;
    region_ = std::make_shared<Region>(
        Region::create(bootstrap_->local_size(), StagingPool::region_bytes(env_.staging_bytes), card.nonce));
    card.fd = region_->fd();
    if (bootstrap_->hosts() != 1 || !env_.fake_hosts.empty()) open_rails(card);
  } catch (const std::exception& error) {
    card.trouble = error.what();
  }
  return card;
}

std::string Session::meet(bool speaks) {
  std::vector<std::optional<Card>> maybe;
  for (Rank rank = 0; rank < size(); ++rank) {
    std::optional<std::vector<std::byte>> bytes = bootstrap_->card_of(rank);
    maybe.push_back(bytes ? unpack(*bytes) : std::nullopt);
  }
  census_ = take_census(maybe);
  if (!census_.trouble.empty()) return census_.trouble;
  for (auto& card : maybe) cards_.push_back(std::move(*card));
  if (speaks)
    set_log_speaker(fmt::format("rank {} on {}", rank(), cards_[static_cast<std::size_t>(rank())].host));
  if (rank() == 0)
    for (const std::string& note : census_.notes) log_warning(note);
  if (std::string trouble = attach_local(cards_); !trouble.empty()) return trouble;
  try_rails();
  return {};
}

std::string Session::connect(std::span<const std::uint64_t> reach_of_rank, std::function<void()> guest) {
  doors_.reset();
  std::vector<Card> cards = std::move(cards_);
  if (std::find(reach_of_rank.begin(), reach_of_rank.end(), 0) != reach_of_rank.end())
    return census_.trouble = "a rank could not take part";  // it has said why
  if (census_.hosts() > 1) choose_lanes(reach_of_rank);
  if (census_.hosts() > 1 && census_.lanes.empty()) return census_.trouble = "no rail connects all hosts";
  if (census_.hosts() > 1) connect_wire(cards);
  set_up_tuning(cards);
  Waiting waiting;
  waiting.guest = std::move(guest);
  waiting.stall_warning = static_cast<Nanoseconds>(env_.stall_warn_s * 1e9);
  std::vector<Card> here;
  for (Rank peer : census_.ranks_with(rank())) here.push_back(cards[static_cast<std::size_t>(peer)]);
  if (is_crowded(here)) waiting.spins = 0;
  engine_ =
      std::make_unique<Engine>(Fabrics{local_.get(), census_.hosts() > 1 ? wire_.get() : nullptr}, waiting);
  return {};
}

std::string Session::attach_local(const std::vector<Card>& cards) {
  std::vector<Rank> here = census_.ranks_with(rank());
  std::vector<LocalPeer> peers;
  int me = 0;
  if (here.size() > static_cast<std::size_t>(bootstrap_->local_size()))
    return fmt::format("PMIx counts {} ranks on this host, there are {}", bootstrap_->local_size(),
                       here.size());
  for (Rank peer : here) {
    const Card& card = cards[static_cast<std::size_t>(peer)];
    if (peer == rank()) {
      me = static_cast<int>(peers.size());
      peers.push_back({peer, region_});
      continue;
    }
    std::optional<Region> region = Region::attach(card.pid, card.fd, card.nonce, card.bell);
    if (!region)
      return fmt::format(
          "rank {} cannot open the shared memory of rank {} on the same host (another container or user?)",
          rank(), peer);
    peers.push_back({peer, std::make_shared<Region>(std::move(*region))});
  }
  local_ = std::make_unique<SharedMemoryTransport>(std::move(peers), me, census_.staging);
  return {};
}

// What is wrong with the options or the cache costs their effect, not the job. All ranks read the same.
void Session::set_up_tuning(const std::vector<Card>& cards) {
  auto warn = [&](const std::string& text) {
    if (rank() == 0) log_warning(text);
  };
  tune_.deterministic = census_.deterministic;
  try {
    tune_.options = parse_ddl_options(census_.options, size());
    if (!tune_.options.dims.empty()) Grid::from_dims(census_.host_of_rank, tune_.options.dims);
  } catch (const UsageError& error) {
    warn(fmt::format("{}; the plan is chosen from the machine", error.what()));
    tune_.options = {};
  }
  for (const std::string& word : tune_.options.ignored) warn(fmt::format("{} has no effect here", word));
  memory_ = std::make_unique<TuneMemory>(machine_name({cards[0].cpus.size(), cards[0].cpu_model},
                                                      census_.host_of_rank, cards[0].wire,
                                                      rails_in_words(census_)));
  std::string trouble = cache_trouble_;
  if (trouble.empty() && !census_.tuning.empty()) trouble = memory_->read(census_.tuning);
  if (!trouble.empty()) warn(fmt::format("the tuning cache {} is ignored ({})", env_.tune_cache, trouble));
}

void Session::save_tuning() const {
  if (env_.tune_cache.empty() || !memory_->has_news()) return;
  CacheText old = read_cache_file(env_.tune_cache);
  if (!old.trouble.empty()) return;  // it was said when the job began
  bool is_foreign = !old.text.empty() && !is_tuning(old.text);
  try {
    write_cache_file(env_.tune_cache, memory_->write(old.text), is_foreign ? Old::keep : Old::replace);
  } catch (const Error& error) {
    log_warning(error.what());
  }
}

PlanLimits Session::limits() const {
  return {static_cast<LaneId>(std::max<std::size_t>(1, census_.lanes.size())),
          staging_of_a_call(census_.staging), census_.segment, machine_over(census_.lane_gbit)};
}

std::shared_ptr<PlanStore> Session::plans_of(const std::vector<Rank>& ranks, Rank me) {
  constexpr std::size_t kKept = 64;
  std::lock_guard lock(stores_mutex_);
  for (auto known = stores_.begin(); known != stores_.end(); ++known)
    if ((*known)->members().ranks == ranks) {
      if (known != stores_.begin()) std::rotate(stores_.begin(), known, known + 1);
      return stores_.front();
    }
  Members members{ranks, me, {}, {}};
  std::vector<int> numa_nodes;
  for (Rank rank : ranks) {
    members.hosts.push_back(census_.host_of_rank[static_cast<std::size_t>(rank)]);
    numa_nodes.push_back(census_.numa_of_rank[static_cast<std::size_t>(rank)]);
  }
  members.grid = grid_of(tune_.options, members.hosts, numa_nodes);
  stores_.push_front(std::make_shared<PlanStore>(std::move(members), limits()));
  if (stores_.size() > kKept) stores_.pop_back();
  return stores_.front();
}

std::unique_ptr<Selection> Session::make_selection(Communicator& communicator) {
  if (tune_.options.dump_iter) engine_->time_dimensions(communicator);
  auto agree = [this, &communicator](std::span<std::int64_t> numbers, Op op) {
    Call call{numbers.data(), numbers.data(), numbers.size(), DType::int64, op, "", now()};
    engine_->run(communicator, call);
  };
  return std::make_unique<Selection>(communicator.plans(), tune_, *memory_, agree);
}

namespace {

void copy_device(void* to, const void* from, Bytes bytes) {
  if (!copy_device_memory(to, from, bytes)) throw Error("cannot copy a buffer between device and host");
}

// Brings the input of a call on device memory to the host, and makes the call one on host memory.
void fetch(Call& call, std::vector<std::byte>& staged) {
  if (!is_device_memory(call.in, call.out, call.began)) return;
  staged.resize(call.bytes());
  copy_device(staged.data(), call.in, call.bytes());
  call.in = call.out = staged.data();
}

}  // namespace

void Session::run(Communicator& communicator, const Call& asked, PreparedPlan& plan, Observed* observed) {
  Call call = asked;
  std::vector<std::byte> staged;
  fetch(call, staged);
  engine_->run(communicator, call, &plan, observed);
  if (!staged.empty() && !engine_->failed()) copy_device(asked.out, staged.data(), asked.bytes());
}

Started Session::start(SessionCall& call, Communicator& communicator, const Call& asked, PreparedPlan& plan) {
  call.asked = asked;
  Call work = asked;
  fetch(work, call.staged);
  return engine_->start(communicator, work, call, &plan);
}

void Session::finish(SessionCall& call) {
  if (!call.staged.empty() && !engine_->failed())
    copy_device(call.asked.out, call.staged.data(), call.asked.bytes());
  call.staged.clear();
}

std::string Session::report_part() {
  predicted_.resize(census_.lanes.size());
  if (engine_) engine_->collect(counters_, predicted_);
  nlohmann::json part = counters_.to_json();
  part["rails"] = nlohmann::json::array();
  for (std::size_t lane = 0; lane < census_.lanes.size() && engine_; ++lane)
    part["rails"].push_back({{"name", census_.lanes[lane]},
                             {"bytes_sent", wire_->bytes_sent(lane)},
                             {"bytes_predicted", predicted_[lane]}});
  part["staging_bytes"] = local_ ? local_->staging_taken() : 0;
  return part.dump();
}

std::string Session::report(const std::vector<std::string>& parts) const {
  using nlohmann::json;
  json report = {
      {"version", 1}, {"ranks", size()}, {"engine", engine_ != nullptr}, {"reason", census_.trouble}};
  report["collectives"] = report["rails"] = report["algorithms"] = json::array();
  report["staging_bytes"] = 0;
  for (const std::string& text : parts) {
    json part = json::parse(text, nullptr, false);
    if (part.is_discarded()) continue;
    if (report["algorithms"].empty())
      report["algorithms"] = part["algorithms"];  // the same on all ranks of a call
    report["staging_bytes"] =
        std::max(report["staging_bytes"].get<Bytes>(), part["staging_bytes"].get<Bytes>());
    merge_counts(report, part);
  }
  json hosts = json::array();
  for (int h = 0; h < census_.hosts(); ++h) {
    json ranks = json::array();
    for (std::size_t r = 0; r < census_.host_of_rank.size(); ++r)
      if (census_.host_of_rank[r] == h) ranks.push_back(r);
    hosts.push_back({{"name", census_.host_names[static_cast<std::size_t>(h)]}, {"ranks", ranks}});
  }
  json dims = json::array();
  if (!census_.host_of_rank.empty()) {
    Grid grid = grid_of(tune_.options, census_.host_of_rank, census_.numa_of_rank);
    for (int d = 0; d < grid.dimensions(); ++d) dims.push_back(grid.fanout(d));
  }
  report["grid"] = {{"hosts", hosts}, {"dims", dims}};
  return report.dump(2) + "\n";
}

}  // namespace ddl
