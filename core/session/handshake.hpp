// Handshake: how the ranks of a job agree that all of them use the engine, or that none does and why.
//
//   round 1   every rank's endpoint info        all conclude the same from all endpoint infos (map_job)
//             (locally) attach the neighbours' memory, try the rails
//   round 2   what this rank reaches   0: trouble here. All choose the same rails
//             (locally) connect over these
//   round 3   connected, or not        joined, if all are
//   round R   the reason               instead of the next round, when one is in trouble: all hear the reason
//                                      of the first who is, and that rank says it
//
// Every rank goes through the same rounds, whatever is wrong with it, as all decide from what all have heard.
// Where the exchange itself fails this rank gives up alone; the others find it missing and give up too.
//
// A state machine without a thread of its own: step() does what can be done without waiting. Thread safety:
// one call at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/bootstrap/exchange.hpp"
#include "core/bootstrap/job_map.hpp"

namespace ddl {

/// What a rank reaches, as far as it has tried.
struct Reach {
  std::vector<std::string> rail_trouble;  // by rail, "" where it carries bytes; empty: nothing was tried
  bool reads_neighbours = false;          // all on its host: their memory, with one copy
  bool slow_lines = false;                // see lines_come_slowly()
};

/// What a rank does on its own between the rounds. What one of these throws is in the way of the whole job.
class JoinSteps {
 public:
  virtual ~JoinSteps() = default;
  /// What this rank tells all others; what is wrong here stands in it.
  virtual EndpointInfo describe() = 0;
  /// The endpoint infos are in order: attaches the memory of the neighbours and tries the rails.
  virtual Reach reach(const JobMap& job_map, const std::vector<EndpointInfo>& endpoints) = 0;
  /// Over the rails that are left in the job map.
  virtual void connect(const JobMap& job_map, const std::vector<EndpointInfo>& endpoints) = 0;
  /// Rails were lost on the way, which this rank is to say; the job goes on over others.
  virtual void rails_lost(const std::string& lost, const std::string& kept) = 0;
};

/// What came of it, alike on all ranks. One of them says the reason; where rank 0 has no endpoint info nobody
/// here does, as whoever loads the engine there has said why.
struct Conclusion {
  bool joined = false;
  std::string reason;  // why the collectives use the original library, "" when joined
  bool says = false;   // this rank is the one that says so
  Rank of_rank = -1;   // whose reason it is; -1: all ranks found it
};

class Handshake {
 public:
  /// All must outlive it.
  Handshake(Exchange& exchange, JoinSteps& steps) : exchange_(exchange), steps_(steps) {}

  /// Publishes the endpoint info: for those that PMIx started this goes before MPI_Init. Throws Error: this
  /// rank has no endpoint info then, which all others see alike.
  void start();
  /// Does what can be done without waiting for others; true when it is concluded.
  bool step();
  /// Waits for the others until it is concluded.
  const Conclusion& finish();

  const Conclusion& conclusion() const { return conclusion_; }
  /// Valid from the first round on; with the rails that are used, and with why there is no engine.
  const JobMap& job_map() const { return job_map_; }

 private:
  enum class Round : std::uint8_t { endpoints, reach, connected, reason, over };

  template <class Listen>
  void advance(Listen listen);
  void hear(const Exchange::Answers& answers);
  void hear_endpoints(const Exchange::Answers& answers);
  void hear_reach(const Exchange::Answers& answers);
  void hear_connected(const Exchange::Answers& answers);
  void hear_reason(const Exchange::Answers& answers);
  void take_endpoints(const Exchange::Answers& answers);
  std::size_t choose_rails(const std::vector<std::uint64_t>& reach_of_rank);
  template <class Step>
  void attempt(Step step);
  void exchange_failed(const std::exception& error);
  void say_reach();
  void say_connected();
  void ask_reason(std::size_t of_rank);
  void give_up(const std::string& reason, std::size_t sayer, Rank of_rank);
  void conclude(Conclusion conclusion);
  bool is_me(std::size_t rank) const { return rank == static_cast<std::size_t>(exchange_.rank()); }

  Exchange& exchange_;
  JoinSteps& steps_;
  Round round_ = Round::endpoints;
  JobMap job_map_;
  std::vector<EndpointInfo> endpoints_;
  Reach reach_;
  std::string trouble_;       // of this rank
  std::size_t troubled_ = 0;  // the first rank in trouble
  Conclusion conclusion_;
};

}  // namespace ddl
