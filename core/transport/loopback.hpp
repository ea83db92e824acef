// Loopback: ranks as threads of one process, for tests. One LoopbackNet joins them; each rank has one
// LoopbackTransport. Payloads are copied. Thread safety: the net is safe, a transport belongs to one rank.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "core/transport/transport.hpp"

namespace ddl {

class LoopbackNet {
 public:
  explicit LoopbackNet(Rank ranks) : queues_(static_cast<std::size_t>(ranks)) {}

  struct Message {
    Header header;
    std::vector<std::byte> payload;
  };
  void put(Rank to, Message message);
  bool take(Rank me, Message& message);

 private:
  struct Queue {
    std::mutex mutex;
    std::deque<Message> messages;
  };
  std::vector<Queue> queues_;
};

class LoopbackTransport : public Transport {
 public:
  LoopbackTransport(LoopbackNet& net, Rank me) : net_(net), me_(me) {}
  bool send(const Outgoing& message) override;
  bool progress(MessageHandler& handler) override;

 private:
  LoopbackNet& net_;
  Rank me_;
};

}  // namespace ddl
