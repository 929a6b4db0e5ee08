// Speed and accuracy of the inference client against the null server, whose tokens carry their time
// of sending.
//   bench_inference_client [RATE_PER_S] [SECONDS] [TOKENS] [URL]
// Without a URL it starts a null server (TTFT 20 ms, 10 ms apart) on the last processor and runs on
// the first one.
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "probes/inference/arrivals.h"
#include "probes/inference/client.h"
#include "probes/inference/null_server.h"

namespace mixproof::inference {
namespace {

void pin(unsigned cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof(set), &set);
}

class Collector final : public ClientEvents {
 public:
  Collector(const Schedule& schedule, RequestWriter& writer)
      : schedule_(schedule), writer_(writer) {}
  std::vector<std::int64_t> lateness, ttft, lag, receive_error;
  std::map<Outcome, int> outcomes;
  std::int64_t reconnects = 0;

  std::string_view request(std::int64_t i) override {
    return writer_.write(prompt_text(schedule_, schedule_.arrivals[static_cast<std::size_t>(i)]),
                         schedule_.arrivals[static_cast<std::size_t>(i)].answer_tokens);
  }
  void finished(const RequestRecord& record) override {
    ++outcomes[record.outcome];
    reconnects += record.reconnects;
    if (record.outcome != Outcome::kOk) return;
    lateness.push_back(record.send - record.sched);
    ttft.push_back(record.first - record.sched);
    if (record.lag) lag.push_back(*record.lag);
  }
  void token(const RequestRecord&, std::int64_t at, std::string_view text) override {
    std::int64_t sent = 0;  // 0 from a server that does not stamp
    for (const char c : text)
      if (c >= '0' && c <= '9') sent = sent * 10 + (c - '0');
    receive_error.push_back(at - sent);
  }

 private:
  const Schedule& schedule_;
  RequestWriter& writer_;
};

void print(const char* name, std::vector<std::int64_t>& values) {
  if (values.empty()) return;
  std::sort(values.begin(), values.end());
  const auto at = [&](double p) {  // smallest x with at least ceil(p n) samples <= x
    const auto rank = static_cast<std::size_t>(p * static_cast<double>(values.size()));
    return static_cast<double>(values[std::min(rank, values.size() - 1)]) / 1e3;
  };
  std::printf("%-16s p50 %10.1f  p99 %10.1f  p99.9 %10.1f us  (n %zu)\n", name, at(0.5), at(0.99),
              at(0.999), values.size());
}

Status measure(double rate_per_s, double seconds, std::int64_t tokens, const std::string& url,
               bool stamped) {
  const Endpoint endpoint = TRY(resolve_endpoint(url));
  const std::vector<SchedulePhase> phases = {
      {"bench", 0, static_cast<std::int64_t>(seconds * 1e9)}};
  const std::int64_t before_draw = monotonic_ns();
  const Schedule schedule =
      TRY(draw_schedule({"poisson", rate_per_s}, phases, 1, {.answer_tokens = tokens}));
  std::printf("schedule of %zu drawn in %.1f ms\n", schedule.arrivals.size(),
              1e-6 * static_cast<double>(monotonic_ns() - before_draw));
  RequestWriter writer(endpoint, {.model = "mixproof"});
  auto client = TRY(Client::create(endpoint, {.connections = 64, .max_in_flight = 20'000}));
  TRY(client->open_pool(monotonic_ns() + 5 * kSecond, {}));
  Collector collector(schedule, writer);
  std::vector<Send> sends;
  const std::int64_t begin = monotonic_ns() + 200 * kMillisecond;
  for (std::size_t i = 0; i < schedule.arrivals.size(); ++i)
    sends.push_back({static_cast<std::int64_t>(i), begin + schedule.arrivals[i].at_ns, tokens});
  const Priority priority;
  const std::int64_t cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
  TRY(client->run(sends, begin + phases[0].end_ns, {60 * kSecond, 60 * kSecond, 60 * kSecond}, {},
                  collector));
  const double cpu_us = 1e-3 * static_cast<double>(clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu);
  const double wall_s = 1e-9 * static_cast<double>(monotonic_ns() - begin);
  const auto events = static_cast<double>(collector.receive_error.size());
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf(
      "%s; %.0f requests/s, %.0f token events/s, %.2f us CPU an event, core %.0f %%, peak memory "
      "%ld MB\n",
      priority.description().c_str(), static_cast<double>(sends.size()) / wall_s, events / wall_s,
      cpu_us / events, 1e-4 * cpu_us / wall_s, usage.ru_maxrss / 1024);
  for (const auto& [outcome, count] : collector.outcomes)
    std::printf("%s %d  ", outcome_name(outcome).data(), count);
  std::printf("reconnects %lld\n", static_cast<long long>(collector.reconnects));
  print("send lateness", collector.lateness);
  if (stamped) print("receive error", collector.receive_error);
  print("lag (worst read)", collector.lag);
  print("ttft", collector.ttft);
  return ok();
}

[[noreturn]] void serve_in_child(int port_pipe) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  pin(std::thread::hardware_concurrency() - 1);
  NullServerOptions options;
  options.on_listening = [&](int port) {
    if (::write(port_pipe, &port, sizeof(port)) != sizeof(port)) _exit(1);
  };
  _exit(serve_null(options, {}).ok() ? 0 : 1);
}

int bench(const std::vector<std::string>& args) {
  const double rate = args.size() > 0 ? std::atof(args[0].c_str()) : 100;
  const double seconds = args.size() > 1 ? std::atof(args[1].c_str()) : 5;
  const std::int64_t tokens = args.size() > 2 ? std::atoll(args[2].c_str()) : 64;
  std::string url = args.size() > 3 ? args[3] : "";
  pid_t child = 0;
  if (url.empty()) {
    int ends[2];
    if (pipe(ends) != 0) return 1;
    child = fork();
    if (child == 0) serve_in_child(ends[1]);
    ::close(ends[1]);
    int port = 0;
    if (::read(ends[0], &port, sizeof(port)) != sizeof(port)) return 1;
    url = "http://127.0.0.1:" + std::to_string(port);
  }
  pin(0);
  const Status status = measure(rate, seconds, tokens, url, child != 0);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.error().message.c_str());
  if (child != 0) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace mixproof::inference

int main(int argc, char** argv) { return mixproof::inference::bench({argv + 1, argv + argc}); }
