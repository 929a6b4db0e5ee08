#include "probes/inference/instrument.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>

#include "harness/base/json.h"
#include "harness/base/text.h"
#include "harness/base/unique_fd.h"
#include "probes/inference/arrivals.h"
#include "probes/inference/clock.h"
#include "probes/inference/http.h"
#include "probes/inference/request.h"
#include "probes/inference/scheduling.h"

namespace mixproof::inference {
namespace {

constexpr std::int64_t kStartTime = 2 * kSecond;  // for a process of ours to be ready
constexpr std::int64_t kPageTime = 5 * kSecond;   // for a page of the null server
constexpr std::int64_t kGrace = 10 * kSecond;     // beyond the last deadline of a request

struct Pipe {
  UniqueFd read, write;
};

Result<Pipe> make_pipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return system_error("pipe2");
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

// Waits until `fd` can be read; false when the time came first.
bool readable_by(int fd, std::int64_t deadline_ns) {
  while (true) {
    const std::int64_t left = deadline_ns - monotonic_ns();
    if (left <= 0) return false;
    pollfd waiting{fd, POLLIN, 0};
    const timespec timeout = timespec_of(left);
    if (::ppoll(&waiting, 1, &timeout, nullptr) > 0) return true;
  }
}

// A child that dies with us. `body` runs in it and never returns.
template <typename Body>
Result<pid_t> fork_child(const Body& body) {
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return system_error("fork");
  if (pid > 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  body();
  ::_exit(1);
}

std::vector<int> one_cpu(int cpu) { return cpu < 0 ? std::vector<int>{} : std::vector<int>{cpu}; }

void end_child(pid_t pid) {
  ::kill(pid, SIGKILL);
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

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

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> out;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return out;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) out.push_back(cpu);
  return out;
}

Status run_on_cpus(const std::vector<int>& cpus) {
  if (cpus.empty()) return ok();
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(cpu, &set);
  if (::sched_setaffinity(0, sizeof set, &set) != 0)
    return system_error(format("run on processor %d", cpus.front()));
  return ok();
}

// ---- The server

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
    if (!run_on_cpus(one_cpu(cpu)).ok()) ::_exit(1);
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

// ---- The client

Result<std::vector<PlannedRequest>> poisson_plan(double rate_per_s, double begin_s, double seconds,
                                                 std::uint64_t seed, std::int64_t tokens) {
  const std::vector<SchedulePhase> phases = {
      {format("from %.3f", begin_s), 0, static_cast<std::int64_t>(seconds * 1e9)}};
  const Schedule schedule =
      TRY(draw_schedule({"poisson", rate_per_s}, phases, seed, {.answer_tokens = tokens}));
  std::vector<PlannedRequest> out;
  out.reserve(schedule.arrivals.size());
  for (const Arrival& arrival : schedule.arrivals)
    out.push_back({arrival.at_ns + static_cast<std::int64_t>(begin_s * 1e9), tokens});
  return out;
}

namespace {

// What goes through the pipe before the lists.
struct Summary {
  std::int64_t requests = 0, errors = 0, begin_ns = 0, end_ns = 0, memory_bytes = 0;
  double cpu_s = 0, steal = 0;
  char scheduling[120] = {}, failure[400] = {};
};
static_assert(std::is_trivially_copyable_v<Summary> && std::is_trivially_copyable_v<SeenRequest>);

class Watcher final : public ClientEvents {
 public:
  Watcher(const Endpoint& endpoint, const ClientJob& job)
      : job_(job), writer_(endpoint, {.model = job.model}), stamps_(job.requests.size()) {
    std::int64_t tokens = 0;
    for (const PlannedRequest& request : job.requests) tokens += request.tokens;
    errors.reserve(static_cast<std::size_t>(tokens));
    requests.reserve(job.requests.size());
  }

  std::string_view request(std::int64_t i) override {
    return writer_.write(format("%08llx able", static_cast<unsigned long long>(i)),
                         job_.requests[static_cast<std::size_t>(i)].tokens);
  }
  void token(const RequestRecord& record, std::int64_t at, std::string_view text) override {
    const char* begin = text.data();
    const char* end = begin + text.size();
    while (begin != end && *begin == ' ') ++begin;
    std::int64_t stamp = 0;
    if (std::from_chars(begin, end, stamp).ec != std::errc{}) return;  // not of a null server
    errors.push_back(at - stamp);
    Stamps& seen = stamps_[static_cast<std::size_t>(record.i)];
    if (seen.first == 0) seen.first = stamp;
    seen.worst = std::max(seen.worst, at - stamp);
  }
  void finished(const RequestRecord& r) override {
    const Stamps& seen = stamps_[static_cast<std::size_t>(r.i)];
    requests.push_back({r.i, r.sched, r.send, r.sent, r.first, r.last, r.end, r.tokens, r.events,
                        r.lag.value_or(-1), seen.first, seen.worst, r.outcome});
  }

  std::vector<SeenRequest> requests;
  std::vector<std::int64_t> errors;

 private:
  struct Stamps {
    std::int64_t first = 0, worst = 0;
  };
  const ClientJob& job_;
  RequestWriter writer_;
  std::vector<Stamps> stamps_;
};

std::int64_t peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

// In the client's process.
Status work(const ClientJob& job, std::optional<Watcher>& watcher, Summary& summary) {
  TRY(run_on_cpus(one_cpu(job.cpu)));
  const Endpoint endpoint = TRY(resolve_endpoint(job.url));
  watcher.emplace(endpoint, job);
  const std::int64_t memory = peak_memory();
  auto client = TRY(Client::create(endpoint, job.options));
  TRY(client->open_pool(monotonic_ns() + kPageTime, {}));
  std::optional<Priority> priority;
  if (job.raise_priority) priority.emplace();
  const std::string scheduling = priority ? priority->description() : "default";
  std::strncpy(summary.scheduling, scheduling.c_str(), sizeof summary.scheduling - 1);
  std::vector<Send> sends;
  sends.reserve(job.requests.size());
  summary.begin_ns = monotonic_ns() + 50 * kMillisecond;
  for (std::size_t i = 0; i < job.requests.size(); ++i)
    sends.push_back({static_cast<std::int64_t>(i), summary.begin_ns + job.requests[i].at_ns,
                     job.requests[i].tokens});
  ShareMeter meter;
  const std::int64_t cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
  const Timeouts timeouts{job.timeout_ns, job.timeout_ns, job.timeout_ns};
  TRY(client->run(sends, sends.empty() ? summary.begin_ns : sends.back().at_ns, timeouts, {},
                  *watcher));
  summary.end_ns = monotonic_ns();
  summary.cpu_s = 1e-9 * static_cast<double>(clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu);
  summary.steal = meter.sample().steal;
  summary.memory_bytes = peak_memory() - memory;
  return ok();
}

bool write_all(int fd, const void* data, std::size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = ::write(fd, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

[[noreturn]] void client_process(const ClientJob& job, int out) {
  Summary summary;
  std::optional<Watcher> watcher;
  const Status status = work(job, watcher, summary);
  if (!status.ok()) {
    std::strncpy(summary.failure, status.error().message.c_str(), sizeof summary.failure - 1);
    ::_exit(write_all(out, &summary, sizeof summary) ? 0 : 1);
  }
  summary.requests = std::ssize(watcher->requests);
  summary.errors = std::ssize(watcher->errors);
  const bool sent =
      write_all(out, &summary, sizeof summary) &&
      write_all(out, watcher->requests.data(), watcher->requests.size() * sizeof(SeenRequest)) &&
      write_all(out, watcher->errors.data(), watcher->errors.size() * sizeof(std::int64_t));
  ::_exit(sent ? 0 : 1);
}

// Everything the client wrote; calls `watch` meanwhile.
Result<std::string> collect(int fd, std::int64_t deadline,
                            const std::function<Status(std::int64_t)>& watch) {
  std::string bytes;
  std::vector<char> buffer(256 * 1024);
  while (true) {
    const std::int64_t now = monotonic_ns();
    if (now >= deadline) return Error{Code::kTimeout, "the client's process did not end in time"};
    if (watch) TRY(watch(now));
    if (!readable_by(fd, std::min(deadline, now + kMillisecond))) continue;
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error("read from the client's process");
    if (n == 0) return bytes;
    bytes.append(buffer.data(), static_cast<std::size_t>(n));
  }
}

template <typename T>
bool take(std::string_view& bytes, std::vector<T>& out, std::int64_t count) {
  const std::size_t size = static_cast<std::size_t>(count) * sizeof(T);
  if (count < 0 || bytes.size() < size) return false;
  out.resize(static_cast<std::size_t>(count));
  if (size > 0) std::memcpy(out.data(), bytes.data(), size);
  bytes.remove_prefix(size);
  return true;
}

Result<ClientRun> decode(std::string_view bytes) {
  const Error broken{Code::kPeerLost, "the client's process ended without its results"};
  std::vector<Summary> summaries;
  if (!take(bytes, summaries, 1)) return broken;
  const Summary& summary = summaries.front();
  if (summary.failure[0] != '\0') return Error{Code::kSystem, summary.failure};
  ClientRun run;
  if (!take(bytes, run.requests, summary.requests) ||
      !take(bytes, run.receive_errors_ns, summary.errors))
    return broken;
  std::sort(run.requests.begin(), run.requests.end(),
            [](const SeenRequest& a, const SeenRequest& b) { return a.i < b.i; });
  run.begin_ns = summary.begin_ns;
  run.end_ns = summary.end_ns;
  run.cpu_s = summary.cpu_s;
  run.steal = summary.steal;
  run.memory_bytes = summary.memory_bytes;
  run.scheduling = summary.scheduling;
  return run;
}

}  // namespace

Result<ClientRun> run_client(const ClientJob& job,
                             const std::function<Status(std::int64_t now)>& watch) {
  Pipe pipe = TRY(make_pipe());
  const pid_t pid = TRY(fork_child([&] { client_process(job, pipe.write.get()); }));
  pipe.write.reset();
  const std::int64_t last = job.requests.empty() ? 0 : job.requests.back().at_ns;
  const Result<std::string> bytes =
      collect(pipe.read.get(), monotonic_ns() + kPageTime + last + job.timeout_ns + kGrace, watch);
  end_child(pid);
  if (!bytes.ok()) return bytes.error();
  return decode(*bytes);
}

}  // namespace mixproof::inference
