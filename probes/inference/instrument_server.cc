// The null server in a process of its own.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <new>
#include <nlohmann/json.hpp>

#include "harness/base/cpus.h"
#include "harness/base/json.h"
#include "harness/base/text.h"
#include "probes/inference/clock.h"
#include "probes/inference/http.h"
#include "probes/inference/instrument.h"
#include "probes/inference/own_process.h"
#include "probes/inference/scheduling.h"

namespace mixproof::inference {
namespace {

constexpr std::int64_t kStartTime = 2 * kSecond;  // for the process to be ready
constexpr std::int64_t kPageTime = 5 * kSecond;

Result<std::string> get_page(int port, const char* path) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return system_error("socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return system_error("connect to the null server");
  const std::string request = format("GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", path);
  if (::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(request.size()))
    return system_error("ask the null server");
  HttpResponse response;
  std::string body;
  const std::int64_t deadline = monotonic_ns() + kPageTime;
  std::vector<char> buffer(64 * 1024);
  while (!response.done()) {
    if (!readable_by(fd.get(), deadline))
      return Error{Code::kTimeout, format("the null server did not answer GET %s", path)};
    const ssize_t n = ::recv(fd.get(), buffer.data(), buffer.size(), 0);
    if (n <= 0 || !response.feed({buffer.data(), static_cast<std::size_t>(n)}, body))
      return Error{Code::kPeerLost, format("the null server broke off GET %s", path)};
  }
  return body;
}

}  // namespace

Result<NullServerProcess> NullServerProcess::start(NullServerOptions options, int cpu) {
  void* shared = ::mmap(nullptr, sizeof(NullServerCounts), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return system_error("mmap");
  NullServerProcess out;
  out.counts_ = new (shared) NullServerCounts;
  const Pipe pipe = TRY(make_pipe());
  const int port_out = pipe.write.get();
  options.counts = out.counts_;
  options.on_listening = [port_out](int port) {
    if (::write(port_out, &port, sizeof port) != sizeof port) ::_exit(1);
  };
  out.pid_ = TRY(fork_child([&] {
    if (!run_on_cpu(cpu).ok()) ::_exit(1);
    const Priority priority;
    ::_exit(serve_null(options, {}).ok() ? 0 : 1);
  }));
  if (!readable_by(pipe.read.get(), monotonic_ns() + kStartTime) ||
      ::read(pipe.read.get(), &out.port_, sizeof out.port_) != sizeof out.port_)
    return Error{Code::kSystem, "the null server did not start"};
  return out;
}

NullServerProcess::NullServerProcess(NullServerProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      port_(other.port_),
      counts_(std::exchange(other.counts_, nullptr)),
      stopped_at_(other.stopped_at_),
      went_on_at_(other.went_on_at_) {}

NullServerProcess::~NullServerProcess() {
  if (pid_ > 0) end_child(pid_);
  if (counts_ != nullptr) ::munmap(counts_, sizeof(NullServerCounts));
}

std::string NullServerProcess::url() const { return "http://127.0.0.1:" + std::to_string(port_); }

std::int64_t NullServerProcess::in_flight() const {
  const std::int64_t answers = counts_->answers;  // first, or it could exceed the requests
  return counts_->requests - answers;
}

Result<NullServerProcess::Counts> NullServerProcess::counts() const {
  const std::string page = TRY(get_page(port_, "/counts"));
  const Json json = TRY(parse_json(page, "/counts"));
  return Counts{integer_at(json, "connections"), integer_at(json, "requests"),
                integer_at(json, "answers"), integer_at(json, "tokens")};
}

Result<std::vector<std::int64_t>> NullServerProcess::arrivals() const {
  const std::string page = TRY(get_page(port_, "/arrivals"));
  const Json json = TRY(parse_json(page, "/arrivals"));
  if (!json.is_array()) return Error{Code::kCorrupt, "/arrivals is not a list"};
  std::vector<std::int64_t> out;
  for (const Json& at : json) out.push_back(at.is_number_integer() ? at.get<std::int64_t>() : 0);
  return out;
}

Status NullServerProcess::stop() {
  if (::kill(pid_, SIGSTOP) != 0) return system_error("stop the null server");
  int status = 0;
  if (::waitpid(pid_, &status, WUNTRACED) != pid_ || !WIFSTOPPED(status))
    return Error{Code::kSystem, "the null server did not stop"};
  stopped_at_ = monotonic_ns();
  return ok();
}

Status NullServerProcess::go_on() {
  went_on_at_ = monotonic_ns();
  if (::kill(pid_, SIGCONT) != 0) return system_error("let the null server go on");
  return ok();
}

}  // namespace mixproof::inference
