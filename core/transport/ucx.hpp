// UcxTransport: messages between hosts, one UCP context and worker per rail, so that a lane stays on its NIC.
//
// Active messages, always eager: the payload is reduced straight out of UCX's receive buffer. Endpoints are
// opened at their first message. UCX's own environment (UCX_*) applies to transports, DDL_UCX_* to the
// protocol layer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/transport/transport.hpp"

namespace ddl {

class UcxTransport : public Transport {
 public:
  /// Opens one worker on each of these network interfaces. `tls` names UCX's transports, "" leaves the choice
  /// to UCX. Throws Error naming the interface.
  UcxTransport(const std::vector<std::string>& interfaces, const std::string& tls);
  ~UcxTransport() override;
  UcxTransport(const UcxTransport&) = delete;
  UcxTransport& operator=(const UcxTransport&) = delete;

  /// What peers need to reach rail `i` of this rank.
  std::vector<std::byte> address(std::size_t rail) const;
  /// Told once, before the first send: which own rail serves each lane, and addresses[rank in the job][lane].
  /// Rails without a lane are closed.
  void set_lanes(const std::vector<std::size_t>& rail_of_lane,
                 std::vector<std::vector<std::vector<std::byte>>> addresses);

  bool send(const Outgoing& message) override;
  void flush(std::uint32_t& unfinished) override;
  bool progress(Inbox& inbox) override;
  /// Payload and header bytes handed to a lane's rail so far.
  Bytes bytes_sent(std::size_t lane) const;
  /// Closes every endpoint; after all ranks agreed that nothing is under way.
  void close();

 private:
  struct Rail;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddl
