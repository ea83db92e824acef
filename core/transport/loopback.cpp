#include "core/transport/loopback.hpp"

namespace ddl {

void LoopbackNet::put(Rank to, Message message) {
  Queue& queue = queues_[static_cast<std::size_t>(to)];
  std::lock_guard lock(queue.mutex);
  queue.messages.push_back(std::move(message));
}

bool LoopbackNet::take(Rank me, Message& message) {
  Queue& queue = queues_[static_cast<std::size_t>(me)];
  std::lock_guard lock(queue.mutex);
  if (queue.messages.empty()) return false;
  message = std::move(queue.messages.front());
  queue.messages.pop_front();
  return true;
}

bool LoopbackTransport::send(const Outgoing& message) {
  for (Rank to : message.to)
    net_.put(to, {message.header, std::vector<std::byte>(message.payload.begin(), message.payload.end())});
  return true;
}

bool LoopbackTransport::progress(MessageHandler& handler) {
  LoopbackNet::Message message;
  bool moved = false;
  while (net_.take(me_, message)) {
    auto* kept = new std::vector<std::byte>(std::move(message.payload));
    auto release = [](void*, void* token) { delete static_cast<std::vector<std::byte>*>(token); };
    handler.deliver(message.header, View(kept->data(), kept->size(), release, nullptr, kept));
    moved = true;
  }
  return moved;
}

}  // namespace ddl
