#include "probes/backends/ucx/session.h"

#include <poll.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace mixproof {
namespace {

constexpr int kProgressBatch = 1000;
constexpr std::chrono::milliseconds kCloseWait{100};

struct ConfigTraits {
  using Raw = ucp_config_t*;
  static Raw null() { return nullptr; }
  static void close(Raw raw) noexcept { ucp_config_release(raw); }
};

Status modify(ucp_config_t* config, const char* name, const std::string& value) {
  const ucs_status_t status = ucp_config_modify(config, name, value.c_str());
  if (status == UCS_OK) return ok();
  return ucx_error(Code::kInvalid, std::string("UCX option ") + name + "=" + value, status);
}

void on_endpoint_error(void* argument, ucp_ep_h, ucs_status_t status) {
  *static_cast<ucs_status_t*>(argument) = status;
}

}  // namespace

const char* ucx_version() { return ucp_get_version_string(); }

Error ucx_error(Code code, const std::string& what, ucs_status_t status) {
  return {code, what + ": " + ucs_status_string(status)};
}

Pending::Pending(ucp_worker_h worker, ucs_status_ptr_t request) : worker_(worker) {
  if (request == nullptr) return;
  if (UCS_PTR_IS_ERR(request)) {
    status_ = UCS_PTR_STATUS(request);
  } else {
    request_ = request;
  }
}

Pending::Pending(Pending&& other) noexcept
    : worker_(other.worker_),
      request_(std::exchange(other.request_, nullptr)),
      status_(other.status_) {}

Pending& Pending::operator=(Pending&& other) noexcept {
  if (this == &other) return *this;
  drop();
  worker_ = other.worker_;
  request_ = std::exchange(other.request_, nullptr);
  status_ = other.status_;
  return *this;
}

ucs_status_t Pending::status() const {
  return request_ == nullptr ? status_ : ucp_request_check_status(request_);
}

std::size_t Pending::received_bytes() const {
  ucp_tag_recv_info_t info = {};
  if (request_ == nullptr || ucp_tag_recv_request_test(request_, &info) != UCS_OK) return 0;
  return info.length;
}

void Pending::drop() {
  if (request_ == nullptr) return;
  if (!finished()) ucp_request_cancel(worker_, request_);
  ucp_request_free(std::exchange(request_, nullptr));
}

Result<std::unique_ptr<Endpoint>> Endpoint::create(ucp_worker_h worker,
                                                   const std::string& address) {
  std::unique_ptr<Endpoint> endpoint(new Endpoint(worker));
  ucp_ep_params_t params = {};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = &on_endpoint_error;
  params.err_handler.arg = &endpoint->lost_;
  const ucs_status_t status = ucp_ep_create(worker, &params, &endpoint->raw_);
  if (status != UCS_OK) return ucx_error(Code::kUnavailable, "create endpoint", status);
  return endpoint;
}

Result<std::string> Endpoint::printed() const {
  char* text = nullptr;
  std::size_t length = 0;
  std::FILE* stream = open_memstream(&text, &length);
  if (stream == nullptr) return system_error("open_memstream");
  ucp_ep_print_info(raw_, stream);
  std::fclose(stream);
  std::string result(text, length);
  std::free(text);
  return result;
}

void Endpoint::close() {
  if (raw_ == nullptr) return;
  ucp_request_param_t param = {};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  const Pending request(worker_, ucp_ep_close_nbx(std::exchange(raw_, nullptr), &param));
  const auto end = std::chrono::steady_clock::now() + kCloseWait;
  while (!request.finished() && std::chrono::steady_clock::now() < end)
    ucp_worker_progress(worker_);
}

Result<Session> Session::create(const CommunicatorOptions& options) {
  ucp_config_t* raw_config = nullptr;
  ucs_status_t status = ucp_config_read(nullptr, nullptr, &raw_config);
  if (status != UCS_OK) return ucx_error(Code::kUnavailable, "read the UCX configuration", status);
  const Handle<ConfigTraits> config(raw_config);
  TRY(modify(config.get(), "TLS", options.transport));
  if (!options.net_devices.empty()) TRY(modify(config.get(), "NET_DEVICES", options.net_devices));

  Session session;
  ucp_params_t params = {};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS;
  params.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
  params.estimated_num_eps = static_cast<std::size_t>(options.size);
  ucp_context_h context = nullptr;
  const std::string asked =
      "transport " + options.transport +
      (options.net_devices.empty() ? "" : " on devices " + options.net_devices);
  status = ucp_init(&params, config.get(), &context);
  if (status != UCS_OK) return ucx_error(Code::kUnavailable, "start UCX with " + asked, status);
  session.context_ = Handle<ContextTraits>(context);

  ucp_worker_params_t worker_params = {};
  worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker_params.thread_mode = UCS_THREAD_MODE_SINGLE;
  ucp_worker_h worker = nullptr;
  status = ucp_worker_create(context, &worker_params, &worker);
  if (status != UCS_OK)
    return ucx_error(Code::kUnavailable, "create a UCX worker with " + asked, status);
  session.worker_ = Handle<WorkerTraits>(worker);

  status = ucp_worker_get_efd(worker, &session.event_fd_);
  if (status != UCS_OK)
    return ucx_error(Code::kUnavailable, asked + " cannot wait in the kernel", status);
  ucp_address_t* address = nullptr;
  std::size_t length = 0;
  status = ucp_worker_get_address(worker, &address, &length);
  if (status != UCS_OK)
    return ucx_error(Code::kDevice, "read the address of the UCX worker", status);
  session.address_.assign(reinterpret_cast<const char*>(address), length);
  ucp_worker_release_address(worker, address);
  return session;
}

void Session::progress() {
  for (int i = 0; i < kProgressBatch && ucp_worker_progress(worker_.get()) != 0; ++i) {
  }
}

Status Session::sleep(std::chrono::milliseconds timeout) {
  const ucs_status_t armed = ucp_worker_arm(worker_.get());
  if (armed == UCS_ERR_BUSY) return ok();
  if (armed != UCS_OK) return ucx_error(Code::kDevice, "arm the UCX worker", armed);
  pollfd event = {event_fd_, POLLIN, 0};
  if (poll(&event, 1, static_cast<int>(timeout.count())) < 0 && errno != EINTR)
    return system_error("poll");
  return ok();
}

}  // namespace mixproof
