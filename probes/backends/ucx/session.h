// Session: one UCX worker and its connections to the other ranks of a group, as thin owners of UCX
// handles.
//
// Order of life: context, worker, endpoints; members stand in that order. Endpoints close by force:
// a flush would wait for a peer that may be gone.
#pragma once

#include <ucp/api/ucp.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "harness/base/handle.h"
#include "harness/base/result.h"
#include "probes/backends/communicator.h"

namespace mixproof {

const char* ucx_version();  // of the library that runs, not of the headers

// "what: Destination is unreachable" with the code given.
Error ucx_error(Code code, const std::string& what, ucs_status_t status);

struct ContextTraits {
  using Raw = ucp_context_h;
  static Raw null() { return nullptr; }
  static void close(Raw raw) noexcept { ucp_cleanup(raw); }
};
struct WorkerTraits {
  using Raw = ucp_worker_h;
  static Raw null() { return nullptr; }
  static void close(Raw raw) noexcept { ucp_worker_destroy(raw); }
};

// A request in flight. The buffer it names must outlive it; when it is dropped unfinished it is
// cancelled, which UCX cannot do for every state of a receive: receive only into buffers that live
// as long as the worker.
class Pending {
 public:
  Pending() = default;
  Pending(ucp_worker_h worker, ucs_status_ptr_t request);  // as the nbx calls return it
  Pending(Pending&& other) noexcept;
  Pending& operator=(Pending&& other) noexcept;
  ~Pending() { drop(); }

  bool finished() const { return status() != UCS_INPROGRESS; }
  ucs_status_t status() const;
  std::size_t received_bytes() const;  // of a finished receive

 private:
  void drop();
  ucp_worker_h worker_ = nullptr;
  void* request_ = nullptr;
  ucs_status_t status_ = UCS_OK;  // when there is no request
};

// A connection to one peer. `lost` is set by the library's error callback, from within progress.
class Endpoint {
 public:
  static Result<std::unique_ptr<Endpoint>> create(ucp_worker_h worker, const std::string& address);
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;
  ~Endpoint() { close(); }

  ucp_ep_h get() const { return raw_; }
  ucs_status_t lost() const { return lost_; }  // UCS_OK while nothing was noticed
  Result<std::string> printed() const;         // what ucp_ep_print_info says
  void close();                                // by force; idempotent; waits 100 ms at most

 private:
  explicit Endpoint(ucp_worker_h worker) : worker_(worker) {}
  ucp_worker_h worker_;
  ucp_ep_h raw_ = nullptr;
  ucs_status_t lost_ = UCS_OK;
};

class Session {
 public:
  static Result<Session> create(const CommunicatorOptions& options);

  ucp_worker_h worker() const { return worker_.get(); }
  const std::string& address() const { return address_; }  // of the worker

  // Works off what has arrived; returns when there is nothing left to do, or after a bounded number
  // of calls.
  void progress();
  // Sleeps until something arrives or the timeout has passed. Returns at once when something is
  // left to do.
  Status sleep(std::chrono::milliseconds timeout);

 private:
  Session() = default;
  Handle<ContextTraits> context_;
  Handle<WorkerTraits> worker_;
  std::string address_;
  int event_fd_ = -1;  // belongs to the worker
};

}  // namespace mixproof
