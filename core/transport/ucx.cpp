#include "core/transport/ucx.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/signals.hpp"
#include "core/transport/ucx_library.hpp"

namespace ddl {
namespace {

constexpr unsigned kMessage = 1;  // our only active message

std::atomic<const UcxLibrary*> ucx_loaded{nullptr};  // of all transports, from the first on
const UcxLibrary& ucx() { return *ucx_loaded.load(std::memory_order_relaxed); }

void must(ucs_status_t status, const std::string& what, const std::string& interface) {
  if (status == UCS_OK) return;
  throw Error(
      fmt::format("UCX cannot {} on interface {}: {}", what, interface, ucx().ucs_status_string(status)),
      "ranks of different hosts exchange data through it", "name another one with DDL_RAILS");
}

}  // namespace

struct UcxTransport::Rail {
  std::string interface;
  ucp_context_h context = nullptr;
  ucp_worker_h worker = nullptr;
  std::vector<ucp_ep_h> endpoints;  // by rank in the job
  std::vector<bool> unflushed;      // likewise: something was sent since the last flush
  Impl* owner = nullptr;
  Bytes sent = 0;
};

struct UcxTransport::Impl {
  // A send under way: UCX reads the header until it completes.
  struct Send {
    Header header;
    std::uint32_t* unfinished;
    Impl* pool;
  };

  std::vector<std::unique_ptr<Rail>> rails;
  std::vector<std::vector<WireAddress>> addresses;
  std::vector<std::unique_ptr<Send>> sends;  // all ever made; reused
  std::vector<Send*> idle_sends;
  MessageHandler* receiver = nullptr;  // during progress
  std::vector<std::pair<Rank, std::string>> failures;
  bool closing = false;
  std::uint32_t ignored = 0;  // counted by sends that were cut off

  Send* take_send(const Header& header, std::uint32_t* unfinished) {
    if (idle_sends.empty()) {
      sends.push_back(std::make_unique<Send>());
      idle_sends.push_back(sends.back().get());
    }
    Send* send = idle_sends.back();
    idle_sends.pop_back();
    *send = {header, unfinished, this};
    ++*send->unfinished;
    return send;
  }
  void finish(Send* send) {
    --*send->unfinished;
    idle_sends.push_back(send);
  }

  void open_rail(const std::string& interface, const std::string& tls);
  static void close_rail(Rail& rail);
  ucp_ep_h endpoint(Rail& rail, Rank to);
  void deliver_copy(const Header& header, const void* data);
  static ucs_status_t on_message(void* rail, const void* header, size_t header_bytes, void* data,
                                 size_t bytes, const ucp_am_recv_param_t* how);
  static void on_sent(void* request, ucs_status_t status, void* user);
  static void on_failure(void* rail, ucp_ep_h endpoint, ucs_status_t status);
};

void UcxTransport::Impl::open_rail(const std::string& interface, const std::string& tls) {
  auto rail = std::make_unique<Rail>();
  rail->interface = interface;
  rail->owner = this;
  ucp_config_t* config = nullptr;
  must(ucx().ucp_config_read("DDL", nullptr, &config), "read its configuration", interface);
  ucx().ucp_config_modify(config, "NET_DEVICES", interface.c_str());
  if (!tls.empty()) ucx().ucp_config_modify(config, "TLS", tls.c_str());
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_AM;
  ucs_status_t status = ucx().ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &rail->context);
  ucx().ucp_config_release(config);
  must(status, "start", interface);
  ucp_worker_params_t worker{};
  worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  status = ucx().ucp_worker_create(rail->context, &worker, &rail->worker);
  if (status != UCS_OK) ucx().ucp_cleanup(rail->context);
  must(status, "open a worker", interface);
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                       UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kMessage;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG | UCP_AM_FLAG_PERSISTENT_DATA;
  handler.cb = on_message;
  handler.arg = rail.get();
  status = ucx().ucp_worker_set_am_recv_handler(rail->worker, &handler);
  rails.push_back(std::move(rail));
  must(status, "receive", interface);
}

UcxTransport::UcxTransport(const std::vector<std::string>& interfaces, const std::string& tls)
    : impl_(std::make_unique<Impl>()) {
  SignalsBlocked blocked;  // UCX starts a thread of its own; the program's signals are not for it
  SignalHandlersKept kept;
  ucx_loaded = &ucx_library();
  try {
    for (const std::string& interface : interfaces) impl_->open_rail(interface, tls);
  } catch (...) {
    for (auto& rail : impl_->rails) Impl::close_rail(*rail);
    throw;
  }
}

UcxTransport::~UcxTransport() {
  close();
  for (auto& rail : impl_->rails) Impl::close_rail(*rail);
}

WireAddress UcxTransport::address(std::size_t interface) const {
  ucp_address_t* address = nullptr;
  size_t bytes = 0;
  const Rail& r = *impl_->rails[interface];
  must(ucx().ucp_worker_get_address(r.worker, &address, &bytes), "name its address", r.interface);
  auto* begin = reinterpret_cast<std::byte*>(address);
  WireAddress copy(begin, begin + bytes);
  ucx().ucp_worker_release_address(r.worker, address);
  return copy;
}

void UcxTransport::set_rails(const std::vector<std::size_t>& interface_of_rail,
                             std::vector<std::vector<WireAddress>> addresses) {
  std::vector<std::unique_ptr<Rail>> rails;
  for (std::size_t interface : interface_of_rail) rails.push_back(std::move(impl_->rails[interface]));
  for (auto& rail : impl_->rails)
    if (rail) Impl::close_rail(*rail);
  impl_->rails = std::move(rails);
  for (auto& rail : impl_->rails) {
    rail->endpoints.assign(addresses.size(), nullptr);
    rail->unflushed.assign(addresses.size(), false);
  }
  impl_->addresses = std::move(addresses);
}

void UcxTransport::Impl::close_rail(Rail& rail) {
  ucx().ucp_worker_destroy(rail.worker);
  ucx().ucp_cleanup(rail.context);
}

ucp_ep_h UcxTransport::Impl::endpoint(Rail& rail, Rank to) {
  ucp_ep_h& endpoint = rail.endpoints[static_cast<std::size_t>(to)];
  if (endpoint) return endpoint;
  std::size_t index = 0;
  while (rails[index].get() != &rail) ++index;
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address =
      reinterpret_cast<const ucp_address_t*>(addresses[static_cast<std::size_t>(to)][index].data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {on_failure, &rail};
  ucs_status_t status = ucx().ucp_ep_create(rail.worker, &params, &endpoint);
  if (status != UCS_OK) {
    endpoint = nullptr;
    failures.emplace_back(
        to, fmt::format("UCX cannot connect over {}: {}", rail.interface, ucx().ucs_status_string(status)));
  }
  return endpoint;
}

bool UcxTransport::send(const Outgoing& message) {
  Rail& rail = *impl_->rails[message.rail];
  for (Rank to : message.to) {
    ucp_ep_h endpoint = impl_->endpoint(rail, to);
    if (!endpoint) continue;  // reported as a failed peer by the next progress()
    Impl::Send* send = impl_->take_send(message.header, message.unfinished);
    ucp_request_param_t how{};
    how.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
    how.flags = UCP_AM_SEND_FLAG_EAGER;
    how.cb.send = Impl::on_sent;
    how.user_data = send;
    ucs_status_ptr_t request = ucx().ucp_am_send_nbx(endpoint, kMessage, &send->header, sizeof(Header),
                                                     message.payload.data(), message.payload.size(), &how);
    rail.sent += sizeof(Header) + message.payload.size();
    rail.unflushed[static_cast<std::size_t>(to)] = true;
    if (UCS_PTR_IS_PTR(request)) continue;
    impl_->finish(send);
    if (UCS_PTR_IS_ERR(request))
      impl_->failures.emplace_back(to, ucx().ucs_status_string(UCS_PTR_STATUS(request)));
  }
  return true;
}

// A send counts as complete once UCX has copied it; what it holds back (a full socket) leaves only while
// somebody makes progress. A rank that is done may never come back, so its last bytes are pushed out first.
void UcxTransport::flush(std::span<const Rank> to, std::uint32_t& unfinished) {
  for (auto& rail : impl_->rails)
    for (Rank rank : to) {
      const auto at = static_cast<std::size_t>(rank);
      if (!rail->unflushed[at]) continue;
      rail->unflushed[at] = false;
      if (!rail->endpoints[at]) continue;  // it has failed
      Impl::Send* send = impl_->take_send({}, &unfinished);
      ucp_request_param_t how{};
      how.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
      how.cb.send = Impl::on_sent;
      how.user_data = send;
      ucs_status_ptr_t request = ucx().ucp_ep_flush_nbx(rail->endpoints[at], &how);
      if (!UCS_PTR_IS_PTR(request)) impl_->finish(send);  // an error shows through on_failure
    }
}

void UcxTransport::Impl::on_sent(void* request, ucs_status_t, void* user) {
  auto* send = static_cast<Send*>(user);  // a failed send shows through on_failure as well
  send->pool->finish(send);
  ucx().ucp_request_free(request);
}

ucs_status_t UcxTransport::Impl::on_message(void* arg, const void* header, size_t header_bytes, void* data,
                                            size_t bytes, const ucp_am_recv_param_t* how) {
  auto* rail = static_cast<Rail*>(arg);
  Header known;
  if (header_bytes != sizeof(known) || !rail->owner->receiver) return UCS_OK;
  std::memcpy(&known, header, sizeof(known));
  if (known.bytes != bytes) return UCS_OK;
  if (bytes <= View::kInline || !(how->recv_attr & UCP_AM_RECV_ATTR_FLAG_DATA)) {
    rail->owner->deliver_copy(known, data);
    return UCS_OK;
  }
  auto release = [](void* worker, void* token) {
    ucx().ucp_am_data_release(static_cast<ucp_worker_h>(worker), token);
  };
  rail->owner->receiver->deliver(known, View(data, bytes, release, rail->worker, data));
  return UCS_INPROGRESS;
}

void UcxTransport::Impl::deliver_copy(const Header& header, const void* data) {
  if (header.bytes <= View::kInline) return receiver->deliver(header, View::copy_of(data, header.bytes));
  auto* kept = new std::byte[header.bytes];
  std::memcpy(kept, data, header.bytes);
  auto release = [](void*, void* token) { delete[] static_cast<std::byte*>(token); };
  receiver->deliver(header, View(kept, header.bytes, release, nullptr, kept));
}

void UcxTransport::Impl::on_failure(void* arg, ucp_ep_h endpoint, ucs_status_t status) {
  auto* rail = static_cast<Rail*>(arg);
  if (rail->owner->closing) return;
  auto at = std::find(rail->endpoints.begin(), rail->endpoints.end(), endpoint);
  if (at == rail->endpoints.end()) return;
  rail->owner->failures.emplace_back(
      static_cast<Rank>(at - rail->endpoints.begin()),
      fmt::format("connection over {}: {}", rail->interface, ucx().ucs_status_string(status)));
}

bool UcxTransport::progress(MessageHandler& handler) {
  impl_->receiver = &handler;
  bool moved = false;
  for (auto& rail : impl_->rails) moved |= ucx().ucp_worker_progress(rail->worker) != 0;
  for (auto& [peer, why] : std::exchange(impl_->failures, {})) handler.peer_failed(peer, why);
  return moved;
}

Bytes UcxTransport::bytes_sent(std::size_t rail) const { return impl_->rails[rail]->sent; }

void UcxTransport::close() {
  impl_->closing = true;
  impl_->receiver = nullptr;
  // Sends that are cut off must not report to operations that may be gone by then.
  for (auto& send : impl_->sends) send->unfinished = &impl_->ignored;
  for (auto& rail : impl_->rails) {
    for (ucp_ep_h& endpoint : rail->endpoints) {
      if (!endpoint) continue;
      ucp_request_param_t how{};
      how.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
      how.flags = UCP_EP_CLOSE_FLAG_FORCE;
      ucs_status_ptr_t request = ucx().ucp_ep_close_nbx(endpoint, &how);
      endpoint = nullptr;
      if (!UCS_PTR_IS_PTR(request)) continue;
      Nanoseconds give_up = now() + 1'000'000'000;
      while (ucx().ucp_request_check_status(request) == UCS_INPROGRESS && now() < give_up)
        ucx().ucp_worker_progress(rail->worker);
      ucx().ucp_request_free(request);
    }
  }
}

std::unique_ptr<WireTransport> make_ucx_transport(const std::vector<std::string>& interfaces,
                                                  const std::string& tls) {
  return std::make_unique<UcxTransport>(interfaces, tls);
}

}  // namespace ddl
