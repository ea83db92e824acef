// StreamCommunicator: one rank's end of a communicator of our own, whose calls are ordered on CUDA streams: a
// job over a rendezvous with one communicator of all its ranks, and the staging that brings device memory to
// it and back; or, where that is possible, the device itself.
//
// The rules a user can break: all ranks construct it together and make the same calls in the same order; the
// ranks of one process use different streams. After the first failure nothing is done any more: streams go on
// with undefined results, and all calls say why. Thread safety: all but construction and destruction.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/env.hpp"
#include "core/base/recycler.hpp"
#include "core/bootstrap/peer_watch.hpp"
#include "core/device/captured_call.hpp"
#include "core/device/staged_call.hpp"
#include "core/session/session.hpp"
#include "core/stream/call_batches.hpp"
#include "core/stream/device_path.hpp"
#include "core/stream/host_path.hpp"
#include "core/stream/host_work.hpp"
#include "core/stream/stream_call.hpp"
#include "core/stream/stream_owners.hpp"

namespace ddl {

class StreamCommunicator {
 public:
  enum class Trouble { none, cuda, bad_argument, bad_usage, peer };
  struct State {
    Trouble trouble = Trouble::none;
    std::string text;
  };
  enum class Where : std::uint8_t { nowhere, host, device };
  /// What a call has become: where it is done (nowhere: there was nothing to do); and a part of what, one
  /// batch having one number in what is submitted together, a call by itself none.
  struct Became {
    Where where = Where::nowhere;
    std::uint32_t batch = 0;
    WireType wire = WireType::exact;
  };

  /// Waits for all ranks. Throws Error, on all ranks, when one cannot take part. `who`: whom its lines name,
  /// where the program knows this rank by another number.
  StreamCommunicator(std::shared_ptr<RendezvousClient> rendezvous, const RendezvousId::Token& group,
                     cuda::Context context, Env env, std::string who = {});
  /// Waits for the calls under way.
  ~StreamCommunicator();
  StreamCommunicator(const StreamCommunicator&) = delete;
  StreamCommunicator& operator=(const StreamCommunicator&) = delete;

  /// Enqueues a call and returns. What is wrong with the call alone leaves the communicator as it was.
  State submit(const StreamCall& call, Became* became = nullptr);
  /// All-reduces of one group likewise, of which some may become one operation; nothing is begun where one is
  /// wrong. `became`: null, or a place for each.
  State submit_together(std::span<const StreamCall> calls, Became* became);
  /// Whether that is any different from one after the other (DDL_LAZY_BYTES).
  bool fuses() const { return batches_->is_on(); }
  /// Those who give the same color make a communicator, in the order of their keys; null for who gives none.
  /// All ranks call it, and wait for each other. Throws Error.
  std::unique_ptr<StreamCommunicator> split(std::optional<int> color, int key);
  Rank rank() const { return session_.rank(); }
  Rank size() const { return session_.size(); }
  /// The first failure, which has been said.
  State state() const;
  /// Lets streams go on without results; the other ranks hear that this one is gone.
  void abort();

 private:
  // What the worker has of a call.
  struct UnderWay {
    HostCall host;
    std::atomic<Bytes> left{0};  // of a block
    int claims = 0;              // of streams
  };
  using Entry = Recycler<UnderWay>::Entry;

  SessionOptions options(Env env);
  void join();
  void pin();
  void agree_on_identities();
  int most_workers() const;
  void find_fusion(const Members& members);
  State refuse(const StreamCall& call) const;
  State claim(cuda::Stream stream, const char* name);
  Submitted enqueue(Entry& one, const StagedBuffers& buffers);
  Submitted enqueue_shared(Entry& one, StagedBuffers buffers);
  void end(Entry& one);
  void gather(std::span<const StreamCall> calls, std::size_t first, HostCall& into);
  State submit_batch(std::span<const StreamCall> calls, std::size_t first);
  State submit_apart(std::span<const StreamCall> calls, std::size_t first);
  State capture(const StreamCall& call, const StagedBuffers& buffers);
  HostWork work_in(Communicator* among);
  std::string guarded(const StreamCall& call, const std::function<std::string()>& body);
  std::string work(const HostCall& what, const StagedChunk& chunk, HostWork& host);
  std::string run(Communicator& among, const Call& call, const WireFormat& wire);
  State fail(Trouble trouble, const std::string& why);
  bool stop(const State& why);
  void find_device_path();
  bool is_on_one_host() const;
  bool is_for_device(const StreamCall& call) const { return device_ && device_->serves(call); }
  State submit_on_device(const StreamCall& call, Became& became);
  std::string meet(const StreamCall& call);
  std::string agree(const StreamCall& call);
  bool look_after_device();
  State answer(Submitted how, const StreamCall& call);

  cuda::Context context_;
  const std::string who_;
  Session session_;
  PeerWatch watch_;
  stream_owners::Owner owner_;
  FlagOrdering ordering_ = FlagOrdering::kStreamMemoryOperations;
  std::vector<Communicator*> of_worker_;  // of all ranks
  Recycler<UnderWay> under_way_;
  std::mutex grouping_;  // held while calls are cut into batches, and what these are made of is gathered
  std::optional<CallBatches> batches_;
  std::vector<StagedPiece> pieces_;
  std::vector<cuda::Stream> along_;
  std::unique_ptr<HostPath> host_path_;  // null: what is staged travels as the engine's messages
  std::unique_ptr<StagedCalls> staged_;
  std::unique_ptr<DevicePath> device_;       // null: all calls are staged
  std::deque<HostWork> host_;                // of each worker
  HostWork graph_host_;                      // of who replays what is captured
  Communicator* graphs_ = nullptr;           // of what is captured
  std::unique_ptr<CapturedCalls> captured_;  // null: nothing can be,
  std::string why_no_graphs_;                // because of this
  mutable std::mutex mutex_;
  State state_;
};

}  // namespace ddl
