// Speed and accuracy of the inference client against the null server, whose tokens carry their time
// of sending: one table with the targets, beside wrk on plain HTTP and beside other load generators
// when they are installed.
//   bench_inference_client [--repeats 3] [--seconds 4] [--peers VENV]
// Server and client are processes of their own, on the last and the first processor. Figures are
// medians over the repeats. VENV is a Python environment with aiperf or guidellm.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "harness/base/cpus.h"
#include "harness/base/statistics.h"
#include "harness/base/text.h"
#include "probes/inference/arrivals.h"
#include "probes/inference/clock.h"
#include "probes/inference/instrument.h"
#include "probes/inference/own_process.h"
#include "tests/bench/peers.h"

namespace mixproof::inference {
namespace {

constexpr std::int64_t kTokens = 64;

struct Options {
  int repeats = 3;
  double seconds = 4;
  std::string peers;
};

int client_cpu() { return allowed_cpus().front(); }
int server_cpu() { return allowed_cpus().back(); }

// One line of the table: the median of a figure over the repeats.
struct Row {
  std::string what, unit, target;
  std::vector<double> values;
};

class Table {
 public:
  void add(const std::string& what, const std::string& unit, const std::string& target,
           double value) {
    for (Row& row : rows_)
      if (row.what == what) return row.values.push_back(value);
    rows_.push_back({what, unit, target, {value}});
  }
  void print() const {
    std::printf("%-46s %12s  %-8s %10s  %s\n", "", "median", "", "target", "all repeats");
    for (const Row& row : rows_) {
      std::string all;
      for (const double value : row.values) all += format(" %.4g", value);
      std::printf("%-46s %12.4g  %-8s %10s %s\n", row.what.c_str(), median_of(row.values),
                  row.unit.c_str(), row.target.c_str(), all.c_str());
    }
  }

 private:
  std::vector<Row> rows_;
};

double quantile_us(std::vector<std::int64_t> ns, double p) {
  std::vector<double> us(ns.size());
  std::transform(ns.begin(), ns.end(), us.begin(),
                 [](std::int64_t value) { return 1e-3 * static_cast<double>(value); });
  std::sort(us.begin(), us.end());
  return nearest_rank(us, p).value_or(std::nan(""));
}

struct Job {
  double rate_per_s, seconds;
  std::int64_t tokens = kTokens;
  double ttft_ms = 20, gap_ms = 10;
  int connections = 512;
};

Result<ClientRun> run(const Job& wanted) {
  NullServerOptions server_options;
  server_options.ttft_ms = wanted.ttft_ms;
  server_options.gap_ms = wanted.gap_ms;
  const NullServerProcess server = TRY(NullServerProcess::start(server_options, server_cpu()));
  ClientJob job;
  job.url = server.url();
  job.cpu = client_cpu();
  job.timeout_ns = 60 * kSecond;
  job.options = {.connections = wanted.connections, .max_in_flight = 20'000};
  job.requests = TRY(poisson_plan(wanted.rate_per_s, 0, wanted.seconds, 1, wanted.tokens));
  return run_client(job);
}

double bad_share(const ClientRun& run) {
  const auto bad =
      std::count_if(run.requests.begin(), run.requests.end(),
                    [](const SeenRequest& request) { return request.outcome != Outcome::kOk; });
  return static_cast<double>(bad) /
         static_cast<double>(std::max<std::size_t>(1, run.requests.size()));
}

std::vector<std::int64_t> lateness(const ClientRun& run) {
  std::vector<std::int64_t> out;
  for (const SeenRequest& request : run.requests)
    if (request.send > 0) out.push_back(request.send - request.sched);
  return out;
}

Status accuracy(const Options& options, Table& table) {
  const ClientRun run = TRY(inference::run({.rate_per_s = 1000, .seconds = options.seconds}));
  std::vector<std::int64_t> ttft;
  for (const SeenRequest& request : run.requests)
    if (request.first > 0) ttft.push_back(request.first - request.sched);
  table.add("1,000/s: send lateness p50", "us", "50", quantile_us(lateness(run), 0.5));
  table.add("1,000/s: send lateness p99", "us", "200", quantile_us(lateness(run), 0.99));
  table.add("1,000/s: receive error p50", "us", "50", quantile_us(run.receive_errors_ns, 0.5));
  table.add("1,000/s: receive error p99", "us", "150", quantile_us(run.receive_errors_ns, 0.99));
  table.add("1,000/s: TTFT p50 (true: 20 ms)", "ms", "", 1e-3 * quantile_us(ttft, 0.5));
  table.add("1,000/s: not OK", "share", "0", bad_share(run));
  return ok();
}

Status speed(const Options& options, Table& table) {
  const double rate = 1800;
  const ClientRun run = TRY(inference::run({.rate_per_s = rate, .seconds = options.seconds}));
  std::int64_t last_send = run.begin_ns, last_token = run.begin_ns;
  for (const SeenRequest& request : run.requests) {
    last_send = std::max(last_send, request.send);
    last_token = std::max(last_token, request.last);
  }
  const auto events = static_cast<double>(run.receive_errors_ns.size());
  const double send_s = 1e-9 * static_cast<double>(last_send - run.begin_ns);
  // Each answer lasts as long as the next: the tail behind the last request is as long as the head
  // before the first token.
  const double event_s = 1e-9 * static_cast<double>(last_token - run.begin_ns) - 0.65;
  table.add("1,800/s: new streams", "1/s", "1500",
            static_cast<double>(run.requests.size()) / send_s);
  table.add("1,800/s: token events", "1/s", "100000", events / event_s);
  table.add("1,800/s: CPU a token event", "us", "8", 1e6 * run.cpu_s / events);
  table.add("1,800/s: client's core", "share", "",
            run.cpu_s / (1e-9 * static_cast<double>(run.end_ns - run.begin_ns)));
  table.add("1,800/s: send lateness p99", "us", "", quantile_us(lateness(run), 0.99));
  table.add("1,800/s: receive error p99", "us", "", quantile_us(run.receive_errors_ns, 0.99));
  table.add("1,800/s: not OK", "share", "0", bad_share(run));
  return ok();
}

Status concurrency(Table& table) {
  // All are under way before the first has its first token.
  const ClientRun run = TRY(inference::run({.rate_per_s = 4000,
                                            .seconds = 2.55,
                                            .tokens = 3,
                                            .ttft_ms = 4000,
                                            .gap_ms = 500,
                                            .connections = 64}));
  std::vector<std::pair<std::int64_t, int>> changes;
  for (const SeenRequest& request : run.requests) {
    changes.push_back({request.send, 1});
    changes.push_back({request.end, -1});
  }
  std::sort(changes.begin(), changes.end());
  int open = 0, most = 0;
  for (const auto& [at, change] : changes) most = std::max(most, open += change);
  table.add("10,000 streams: at once", "streams", "10000", most);
  table.add("10,000 streams: memory of the client", "MB", "200",
            1e-6 * static_cast<double>(run.memory_bytes));
  table.add("10,000 streams: not OK", "share", "0", bad_share(run));
  return ok();
}

Status schedule(Table& table) {
  const std::vector<SchedulePhase> phases = {{"bench", 0, 100 * kSecond}};
  const std::int64_t begin = monotonic_ns();
  const Schedule drawn = TRY(draw_schedule({"poisson", 10'000}, phases, 1, {}));
  const double ms = 1e-6 * static_cast<double>(monotonic_ns() - begin);
  table.add("schedule of a million requests", "ms", "200",
            ms * 1e6 / static_cast<double>(drawn.arrivals.size()));
  return ok();
}

// One answer in one piece a request, as wrk has it.
Status plain(const Options& options, Table& table) {
  const ClientRun run = TRY(inference::run(
      {.rate_per_s = 8000, .seconds = options.seconds, .tokens = 1, .ttft_ms = 0, .gap_ms = 0}));
  const auto n = static_cast<double>(run.requests.size());
  table.add("8,000/s of one token: CPU a request", "us", "", 1e6 * run.cpu_s / n);
  table.add("8,000/s of one token: send lateness p99", "us", "", quantile_us(lateness(run), 0.99));
  table.add("8,000/s of one token: not OK", "share", "0", bad_share(run));
  return ok();
}

Status wrk(const Options& options, Table& table) {
  const NullServerProcess server = TRY(NullServerProcess::start({}, server_cpu()));
  const bench::WrkFigures figures =
      TRY(bench::run_wrk(server.url() + "/health", options.seconds, client_cpu()));
  table.add("wrk, plain GET, closed loop: requests", "1/s", "", figures.requests_per_s);
  table.add("wrk, plain GET, closed loop: CPU a request", "us", "", figures.cpu_us_a_request);
  return ok();
}

Status beside_peers(const Options& options, Table& table, double rate) {
  const std::string head = format("%.0f/s of 64 tokens, TTFT p50/p99: ", rate);
  const double seconds = std::max(options.seconds, 5.0);
  const ClientRun run = TRY(inference::run({.rate_per_s = rate, .seconds = seconds}));
  std::vector<std::int64_t> ttft;
  for (const SeenRequest& request : run.requests)
    if (request.first > 0) ttft.push_back(request.first - request.sched);
  table.add(head + "ours p50", "ms", "20", 1e-3 * quantile_us(ttft, 0.5));
  table.add(head + "ours p99", "ms", "20", 1e-3 * quantile_us(ttft, 0.99));
  for (const char* name : {"aiperf", "guidellm"}) {
    const NullServerProcess server = TRY(NullServerProcess::start({}, server_cpu()));
    const auto figures = bench::run_peer(name, options.peers, server.url(), rate, seconds);
    if (!figures.ok()) {
      std::printf("%s at %.0f/s: skipped: %s\n", name, rate, figures.error().message.c_str());
      continue;
    }
    table.add(head + name + " p50", "ms", "20", figures->ttft_p50_ms);
    table.add(head + name + " p99", "ms", "20", figures->ttft_p99_ms);
  }
  return ok();
}

bool parse(const std::vector<std::string>& args, Options& options) {
  for (std::size_t a = 0; a + 1 < args.size(); a += 2) {
    if (args[a] == "--repeats")
      options.repeats = std::atoi(args[a + 1].c_str());
    else if (args[a] == "--seconds")
      options.seconds = std::atof(args[a + 1].c_str());
    else if (args[a] == "--peers")
      options.peers = args[a + 1];
    else
      return false;
  }
  return args.size() % 2 == 0 && options.repeats > 0 && options.seconds > 0;
}

int bench_main(const std::vector<std::string>& args) {
  Options options;
  if (!parse(args, options)) {
    std::fprintf(stderr,
                 "usage: bench_inference_client [--repeats N] [--seconds S] [--peers VENV]\n");
    return 4;
  }
  std::printf("client on processor %d, null server on processor %d; %d repeats\n", client_cpu(),
              server_cpu(), options.repeats);
  Table table;
  const std::vector<std::function<Status()>> parts = {
      [&] { return accuracy(options, table); },
      [&] { return speed(options, table); },
      [&] { return concurrency(table); },
      [&] { return schedule(table); },
      [&] { return plain(options, table); },
      [&] { return wrk(options, table); },
      [&] { return beside_peers(options, table, 100); },
      [&] { return beside_peers(options, table, 200); },
  };
  for (int repeat = 0; repeat < options.repeats; ++repeat)
    for (const auto& part : parts)
      if (const Status status = part(); !status.ok())
        std::printf("skipped: %s\n", status.error().message.c_str());
  table.print();
  return 0;
}

}  // namespace
}  // namespace mixproof::inference

int main(int argc, char** argv) { return mixproof::inference::bench_main({argv + 1, argv + argc}); }
