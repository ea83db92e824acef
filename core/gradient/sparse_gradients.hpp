// SparseGradients: the sparse all-reduces of one communicator. Each is two operations: one of the norms of
// the chunks, after which all ranks know which travel, and one of these chunks.
//
// Life of a call: add to what was kept → norms under way → take what travels → chunks under way → put.
//
// Calls in order: the operations go over two communicators of their own, each in the order in which the
// program made its calls: so no start waits for another rank, and other calls may come in between. They are
// moved by whoever moves the engine. Calls with numbers come in any order from several threads; whether one
// is sparse is agreed on by all ranks, which may have heard of different calls so far. Calls whose program
// says which gradient they carry, SparseGradient, are told nothing else: they are among those in order.
//
// Thread safety: takes() and start(), one thread at a time; run() by any; the rest by the engine.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/collective/engine.hpp"
#include "core/gradient/call_pattern.hpp"
#include "core/gradient/residual.hpp"
#include "core/gradient/sparse_rule.hpp"
#include "core/plan/wire_rule.hpp"

namespace ddl {

/// What a rank knows of one gradient.
struct SparseGradient {
  SparseSettings settings;
  std::uint64_t times = 0;  // it was sent
  std::optional<Residual> residual = std::nullopt;
  bool is_busy = false;  // a call may have added to it and has not taken yet
};

class SparseGradients final : private Background {
 public:
  struct Identities {
    CommId norms, chunks;
    CommId program;  // of the communicator whose calls they are
  };
  /// On these ranks; all of them give the same identities, which no communicator has, and the same settings
  /// of the calls that no program says anything about.
  SparseGradients(Engine& engine, std::shared_ptr<PlanStore> plans, Identities identities,
                  const SparseSettings& settings, WireRule wire);
  /// Nothing of it is under way, or the engine has failed.
  ~SparseGradients() override;
  SparseGradients(const SparseGradients&) = delete;
  SparseGradients& operator=(const SparseGradients&) = delete;

  /// Hears of every call of the communicator, in the order in which all ranks make them: whether this one is
  /// to be sparse; then start() is the next thing to be called.
  bool takes(const Call& call);
  /// Starts the call that was taken last. Its buffers are in host memory.
  void start(const Call& call, Completion& completion);
  /// Starts a call of that gradient, which has a residual: also where all of it travels.
  void start(const std::shared_ptr<SparseGradient>& gradient, const Call& call, Completion& completion);
  /// Makes a call of that number on a communicator of its own, from beginning to end, unless it is not to be
  /// sparse or the engine fails. A communicator has calls with numbers, or calls in order.
  bool run(const Call& call, std::uint64_t number, Communicator& on);

  /// What it keeps, in bytes.
  Bytes kept() const { return kept_.load(std::memory_order_relaxed); }

 private:
  /// What a call would be.
  struct Proposal {
    std::uint64_t place;
    std::shared_ptr<SparseGradient> gradient;
    bool fits;  // what it keeps
    // Once it is accepted:
    Elements sent = 0;       // chunks
    bool is_sparse = false;  // not all of them
  };
  enum class Phase : std::uint8_t { made, adding, norms, taking, chunks, putting, done };
  struct SparseCall {
    Call call{};
    Completion* completion = nullptr;
    std::shared_ptr<SparseGradient> gradient;
    Phase phase = Phase::made;
    std::vector<float> norms;           // by chunk
    std::vector<std::uint32_t> chosen;  // of them
    std::vector<std::byte> packed;      // what they hold
    PreparedPlan *norms_plan = nullptr, *chunks_plan = nullptr;
    Completion norms_done, chunks_done;
  };

  bool is_eligible(const Call& call) const;
  void start(std::shared_ptr<SparseGradient> gradient, Elements sent, const Call& call,
             Completion& completion);
  std::optional<Proposal> propose(const Call& call, std::uint64_t number);
  void accept(Proposal& proposal, const Call& call);
  std::optional<Proposal> claim(const Call& call, std::uint64_t number);
  bool agree(std::optional<Proposal>& mine, Communicator& on, const Call& call);
  void run(const Call& call, const Proposal& agreed, Communicator& on);

  bool advance(EngineTurn& turn) override;
  bool idle() const override { return calls_.empty(); }
  ProgramCall oldest() const override;
  void collect(Counters& into) override;
  bool step(std::size_t number, EngineTurn& turn);
  bool all_before(std::size_t number, Phase reached) const;
  bool may_add(std::size_t number) const;
  void add(SparseCall& one, EngineTurn& turn);
  void take(SparseCall& one, EngineTurn& turn);
  void put(SparseCall& one, EngineTurn& turn);
  void forget();
  void count(const Call& call, Bytes sent, Nanoseconds time);
  PreparedPlan& plan_of_norms(const Call& call) const;
  PreparedPlan& plan_of_chunks(const Call& call, Elements sent) const;

  Engine& engine_;
  const std::shared_ptr<PlanStore> plans_;
  const CommId program_;
  const SparseSettings settings_;
  const WireRule wire_;
  Communicator &norms_on_, &chunks_on_;
  std::mutex mutex_;  // of what follows, for calls with numbers
  CallPattern pattern_;
  std::uint32_t pattern_broken_ = 0;
  std::uint64_t heard_ = 0;
  std::map<std::uint64_t, std::shared_ptr<SparseGradient>> gradients_;  // by place in the step
  std::optional<Proposal> taken_;
  std::atomic<Bytes> kept_{0};
  std::deque<std::unique_ptr<SparseCall>> calls_;  // under way, in the program's order
  std::vector<std::unique_ptr<SparseCall>> idle_;  // their memory fits the next ones
  Counters counted_;
};

}  // namespace ddl
