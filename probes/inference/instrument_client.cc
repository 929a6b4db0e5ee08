// The client in a process of its own.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <type_traits>

#include "harness/base/cpus.h"
#include "harness/base/text.h"
#include "probes/inference/arrivals.h"
#include "probes/inference/clock.h"
#include "probes/inference/instrument.h"
#include "probes/inference/own_process.h"
#include "probes/inference/request.h"
#include "probes/inference/scheduling.h"

namespace mixproof::inference {

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

constexpr std::int64_t kConnectTime = 5 * kSecond;
constexpr std::int64_t kGrace = 10 * kSecond;  // beyond the last deadline of a request

// What goes through the pipe before the lists.
struct Summary {
  std::int64_t requests = 0, errors = 0, read_lags = 0, begin_ns = 0, end_ns = 0, memory_bytes = 0;
  double cpu_s = 0, steal = 0;
  bool kept_awake = false;
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
    read_lags.reserve(static_cast<std::size_t>(tokens));
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
    if (seen.read_at != at && record.read_lag) read_lags.push_back(*record.read_lag);
    seen.read_at = at;
  }
  void finished(const RequestRecord& r) override {
    const Stamps& seen = stamps_[static_cast<std::size_t>(r.i)];
    requests.push_back({r.i, r.sched, r.send, r.sent, r.first, r.last, r.end, r.tokens, r.events,
                        r.lag.value_or(-1), seen.first, seen.worst, r.outcome});
  }

  std::vector<SeenRequest> requests;
  std::vector<std::int64_t> errors, read_lags;

 private:
  struct Stamps {
    std::int64_t first = 0, worst = 0, read_at = 0;
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
  TRY(run_on_cpu(job.cpu));
  const Endpoint endpoint = TRY(resolve_endpoint(job.url));
  watcher.emplace(endpoint, job);
  const std::int64_t memory = peak_memory();
  auto client = TRY(Client::create(endpoint, job.options));
  TRY(client->open_pool(monotonic_ns() + kConnectTime, {}));
  std::optional<Priority> priority;
  if (job.raise_priority) priority.emplace();
  std::optional<Awake> awake;
  if (job.keep_awake) awake.emplace();
  summary.kept_awake = awake && awake->held();
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
  summary.read_lags = std::ssize(watcher->read_lags);
  const bool sent =
      write_all(out, &summary, sizeof summary) &&
      write_all(out, watcher->requests.data(), watcher->requests.size() * sizeof(SeenRequest)) &&
      write_all(out, watcher->errors.data(), watcher->errors.size() * sizeof(std::int64_t)) &&
      write_all(out, watcher->read_lags.data(), watcher->read_lags.size() * sizeof(std::int64_t));
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
      !take(bytes, run.receive_errors_ns, summary.errors) ||
      !take(bytes, run.read_lags_ns, summary.read_lags))
    return broken;
  std::sort(run.requests.begin(), run.requests.end(),
            [](const SeenRequest& a, const SeenRequest& b) { return a.i < b.i; });
  run.begin_ns = summary.begin_ns;
  run.end_ns = summary.end_ns;
  run.cpu_s = summary.cpu_s;
  run.steal = summary.steal;
  run.memory_bytes = summary.memory_bytes;
  run.scheduling = summary.scheduling;
  run.kept_awake = summary.kept_awake;
  return run;
}

}  // namespace

Result<ClientRun> run_client(const ClientJob& job,
                             const std::function<Status(std::int64_t now)>& watch) {
  Pipe pipe = TRY(make_pipe());
  const pid_t pid = TRY(fork_child([&] { client_process(job, pipe.write.get()); }));
  pipe.write.reset();
  const std::int64_t last = job.requests.empty() ? 0 : job.requests.back().at_ns;
  const Result<std::string> bytes = collect(
      pipe.read.get(), monotonic_ns() + kConnectTime + last + job.timeout_ns + kGrace, watch);
  end_child(pid);
  if (!bytes.ok()) return bytes.error();
  return decode(*bytes);
}

}  // namespace mixproof::inference
