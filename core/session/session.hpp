// Session: this process's part in a job, from its endpoint info to its last collective. What joins, plans,
// moves and measures comes together here. A process may be in several jobs (MPI's, and those of communicators
// of our own), each with a session and a failure of its own.
//
// Life: the constructor publishes the endpoint info (where PMIx started the job: before MPI_Init) → join()
// (after it) → communicators and calls (session_communicator.hpp) → report → destruction. When join()
// concludes that the job runs without the engine, only the report is left. Thread safety: after join() all
// members but the report's.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/base/env.hpp"
#include "core/bootstrap/exchange.hpp"
#include "core/bootstrap/job_map.hpp"
#include "core/collective/engine.hpp"
#include "core/gradient/fusion_memory.hpp"
#include "core/session/handshake.hpp"
#include "core/session/join_watch.hpp"
#include "core/session/outstanding.hpp"
#include "core/session/session_endpoint.hpp"
#include "core/session/stall_watch.hpp"
#include "core/session/tuning.hpp"
#include "core/trace/counters.hpp"
#include "core/trace/report_keeper.hpp"

namespace ddl {

struct SessionOptions {
  Env env;
  std::string trouble = {};        // why this rank cannot take part, "" when it can
  bool has_original = true;        // there is a library that calls can be left to
  bool progress_hook = true;       // whoever waits outside the engine calls Session::poll
  bool keeps_report = false;       // writes the report now and then, for a job that may not come to its end
  bool speaks_for_process = true;  // the lines of this process name its rank in this job
  bool waits_awake = false;        // its calls may keep a core for milliseconds, see Waiting::yields_for
  /// Moves the library that the program runs on while a rank waits in the engine.
  std::function<void()> progress = [] {};
  /// Of who waits for ranks that do not come to join; null: whoever joins says himself that it takes long.
  std::unique_ptr<JoinWatch> join_watch = {};
  /// What else this rank needs before it may say that it has joined; what it throws is in the way.
  std::function<void()> also_needs = [] {};
};

class Session final : private JoinSteps {
 public:
  /// A call that has ended, for its owner.
  struct Ended {
    void* owner;
    bool is_right;  // its result is; nothing is after a failure
  };

  /// Publishes this rank's endpoint info. Throws Error: it is in the job without one.
  Session(JobStart start, SessionOptions options);
  ~Session() override;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Waits for the other ranks, as long as the exchange does. All come to the same conclusion.
  const Conclusion& join();
  /// Says what came of it: once per job, by the rank that knows.
  void say_conclusion() const;

  Rank rank() const { return rank_; }
  Rank size() const { return size_; }
  const JobMap& job_map() const { return handshake_.job_map(); }
  Engine& engine() { return *engine_; }
  Counters& counters() { return counters_; }
  const Env& env() const { return options_.env; }
  SessionTuning& tuning() { return tuning_; }

  /// The plans of these ranks, in this order; the same ones as long as anybody has them, and a while longer.
  std::shared_ptr<PlanStore> plans_of(const std::vector<Rank>& members, Rank me);
  /// An identity no other communicator of the job has.
  CommId fresh_id() { return (static_cast<CommId>(rank()) + 1) << 32 | ++created_; }

  FusionMemory& fusion_memory() { return fusion_memory_; }
  OutstandingCalls& outstanding() { return outstanding_; }
  /// Moves what is under way.
  void poll() { engine_->poll(); }
  /// A call that has ended, each once; nothing: there is none. After a failure all have.
  std::optional<Ended> next_ended();
  /// Waits for a call under way that was started for this owner, and tells of its end in place of
  /// next_ended(); nothing: that has done so, or will.
  std::optional<Ended> wait(SessionCall& call, const void* owner);

  /// Why nothing works any more, "" as long as all is well; the first cause stays. What one rank could not do
  /// all learn of.
  void fail(const std::string& why);
  const std::string& failure();

  /// Once joined: where the front notes what the threads of this process do.
  Activity& activity() { return endpoint_.local()->activity(); }
  /// No more calls are made; what is left is to watch over the end of the job. Peers on other hosts are left.
  void close();

  /// The same on all ranks of a job that uses the engine.
  bool wants_report() const;
  /// This rank's part of the report.
  std::string report_part();
  /// The report made of all parts, to DDL_REPORT.
  void write_report(const std::vector<std::string>& parts) const;

 private:
  EndpointInfo describe() override;
  Reach reach(const JobMap& job_map, const std::vector<EndpointInfo>& endpoints) override;
  void connect(const JobMap& job_map, const std::vector<EndpointInfo>& endpoints) override;
  void rails_lost(const std::string& lost, const std::string& kept) override;
  std::string counted_so_far();
  nlohmann::json report_of(const std::vector<std::string>& parts) const;
  void keep_report();
  Ended end(SessionCall& call);
  Waiting waiting(const JobMap& job_map) const;

  const SessionOptions options_;
  std::unique_ptr<Exchange> exchange_;
  const Rank rank_, size_;
  SessionEndpoint endpoint_;
  SessionTuning tuning_;
  Handshake handshake_;
  std::unique_ptr<Engine> engine_;
  std::mutex failure_mutex_;
  std::string failure_;  // the first; does not change any more
  OutstandingCalls outstanding_;
  FusionMemory fusion_memory_;
  Counters counters_;
  std::mutex counting_mutex_;
  std::vector<WireBytes> predicted_;  // per rail: what the plans of the calls so far hand to the wire
  std::mutex stores_mutex_;
  std::deque<std::shared_ptr<PlanStore>> stores_;  // those used last
  std::atomic<std::uint32_t> created_{0};
  Nanoseconds joined_at_ = 0;
  std::unique_ptr<ReportKeeper> keeper_;  // of rank 0, while a report is wanted and not yet written
  StallWatch watch_;                      // last: it looks at all the others
};

}  // namespace ddl
