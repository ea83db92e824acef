// UcxTransport: messages between hosts, one UCP context and worker per rail, so that a rail stays on its NIC.
//
// Active messages, always eager: the payload is reduced straight out of UCX's receive buffer. Endpoints are
// opened at their first message. UCX's own environment (UCX_*) applies to transports, DDL_UCX_* to the
// protocol layer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/transport/wire.hpp"

namespace ddl {

class UcxTransport : public WireTransport {
 public:
  /// Opens one worker on each of these network interfaces. `tls` names UCX's transports, "" leaves the choice
  /// to UCX. Throws Error naming the interface.
  UcxTransport(const std::vector<std::string>& interfaces, const std::string& tls);
  ~UcxTransport() override;
  UcxTransport(const UcxTransport&) = delete;
  UcxTransport& operator=(const UcxTransport&) = delete;

  WireAddress address(std::size_t rail) const override;
  void set_rails(const std::vector<std::size_t>& interface_of_rail,
                 std::vector<std::vector<WireAddress>> addresses) override;
  bool send(const Outgoing& message) override;
  void flush(std::span<const Rank> to, std::uint32_t& unfinished) override;
  bool progress(MessageHandler& handler) override;
  Bytes bytes_sent(std::size_t rail) const override;
  void close() override;

 private:
  struct Rail;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// One of those. Throws Error, also where this was built without UCX.
std::unique_ptr<WireTransport> make_ucx_transport(const std::vector<std::string>& interfaces,
                                                  const std::string& tls);

}  // namespace ddl
