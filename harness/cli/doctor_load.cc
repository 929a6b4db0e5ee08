#include "harness/cli/doctor_load.h"

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <utility>

#include "harness/base/text.h"
#include "harness/cli/catalogue.h"
#include "harness/cli/recorded_load.h"
#include "probes/inference/clock.h"
#include "suites/judge.h"

namespace mixproof {
namespace {

using inference::CheckState;
using inference::ClientJob;
using inference::ClientRun;
using inference::kMillisecond;
using inference::kSecond;
using inference::NullServerProcess;
using inference::SelfCheck;

constexpr std::uint64_t kSeed = 1;
constexpr double kSteadyRate = 1000;
constexpr std::int64_t kSteadyTokens = 16;
constexpr double kLadderMs[] = {0.1, 1, 10, 100};
constexpr std::int64_t kLadderSpacing = 20 * kMillisecond;
constexpr double kOverload = 3;
constexpr std::int64_t kUsualInFlight = 512;               // the load's default
constexpr std::int64_t kFreezeAfter = 500 * kMillisecond;  // the begin of the phase

// Of the runs that the judge judges: a server that answers after 5 ms, and limits of which one
// would fail and one would pass when requests wait for a second or two.
constexpr double kServerTtftS = 0.005, kServerGapMs = 1, kTtftLimitS = 0.05;

struct JudgedLoad {
  double rate_per_s = 0, seconds = 0, deadline_s = 0;
  std::int64_t tokens = 0, max_in_flight = 0;
};

Json judged_suite(const std::string& url, const JudgedLoad& load) {
  const Json common = {
      {"load", "users"}, {"phase", "load"}, {"why", "a drill: what it does must be noticed"}};
  const auto limit = [&common](const Json& own) {
    Json out = common;
    out.update(own);
    return out;
  };
  const Json direct = {{"method", "direct"}, {"metric", "inference.longest_wait"}};
  Json strict = limit(direct), lenient = limit(direct), lost = limit(direct);
  strict.update({{"id", "strict"}, {"at_most", 0.2}});
  lenient.update({{"id", "lenient"}, {"at_most", 3600}});
  lost.update({{"id", "lost"}, {"metric", "inference.lost_time"}, {"at_most", 1e6}});
  const Json sla = limit({{"id", "sla"},
                          {"metric", "inference.attainment"},
                          {"method", "binomial"},
                          {"dependence", "requests"},
                          {"at_least", 0.9},
                          {"confidence", 0.95}});
  const Json phase = {
      {"name", "load"}, {"run", Json::array({"users"})}, {"measure_s", load.seconds}};
  const Json params = {{"arrivals", {{"poisson", {{"rate_per_s", load.rate_per_s}}}}},
                       {"answer_tokens", load.tokens},
                       {"max_in_flight", load.max_in_flight}};
  const Json users = {{"probe", "inference"},
                      {"on", "edge"},
                      {"target", "null"},
                      {"slo", {{"ttft_s", kTtftLimitS}, {"deadline_s", load.deadline_s}}},
                      {"params", params}};
  return {{"schema_version", kSuiteSchemaVersion},
          {"name", "doctor"},
          {"claim", "the judge notices what the drill does"},
          {"nodes", {{"edge", 1}}},
          {"services", {{"null", {{"url", url}}}}},
          {"loads", {{"users", users}}},
          {"phases", Json::array({phase})},
          {"limits", Json::array({strict, lenient, sla, lost})}};
}

struct Judged {
  RecordedLoad load;
  std::vector<std::string> statuses;
  std::string trouble;  // what the judge says of the first check that it does not decide
  double lost_s = 0;
};

class Doctor {
 public:
  explicit Doctor(const DoctorLoadOptions& options) : options_(options) {}

  std::vector<SelfCheck> examine() {
    if (wants("abcdhi")) steady();
    if (wants("e")) ladder();
    if (wants("f")) frozen_server();
    if (wants("g")) frozen_client();
    if (wants("j")) overload();
    if (wants("k")) rate_step();
    std::erase_if(checks_, [this](const SelfCheck& check) { return !wants(check.id); });
    std::sort(checks_.begin(), checks_.end(),
              [](const SelfCheck& a, const SelfCheck& b) { return a.id < b.id; });
    return std::move(checks_);
  }
  const std::string& scheduling() const { return scheduling_; }

 private:
  using Names = std::vector<std::pair<const char*, const char*>>;

  bool wants(std::string_view ids) const {
    return options_.only.empty() || options_.only.find_first_of(ids) != std::string::npos;
  }
  double seconds(double full, double quick) const { return options_.quick ? quick : full; }
  void say(const std::string& what) const {
    if (options_.progress) options_.progress(what);
  }
  void add(SelfCheck check) { checks_.push_back(std::move(check)); }
  void add_failed(const Names& names, const Error& error) {
    for (const auto& [id, what] : names) add(inference::failed_to_run(id, what, error));
  }

  Result<NullServerProcess> server(double ttft_ms, double gap_ms) const {
    inference::NullServerOptions options;
    options.ttft_ms = ttft_ms;
    options.gap_ms = gap_ms;
    return NullServerProcess::start(options, options_.server_cpu);
  }

  ClientJob job(const NullServerProcess& server) const {
    ClientJob out;
    out.url = server.url();
    out.cpu = options_.client_cpu;
    out.raise_priority = options_.raise_priority;
    return out;
  }

  // a, b, c, d, h, i.
  void steady() {
    const Names names = {{"a", "receive error"},  {"b", "arrivals at the server"},
                         {"c", "kernel to user"}, {"d", "send lateness"},
                         {"h", "counters"},       {"i", "Little's law"}};
    const Status status = measure_steady();
    if (!status.ok()) add_failed(names, status.error());
  }

  Status measure_steady() {
    const double length_s = seconds(5, 2.5);
    say(format("%.0f requests/s for %.1f s (a, b, c, d, h, i)", kSteadyRate, length_s));
    const NullServerProcess server = TRY(this->server(20, 10));
    ClientJob job = this->job(server);
    job.options.connections = 300;  // more than are ever in flight
    job.requests = TRY(inference::poisson_plan(kSteadyRate, 0, length_s, kSeed, kSteadyTokens));
    const NullServerProcess::Counts before = TRY(server.counts());
    std::vector<inference::InFlight> samples;
    const ClientRun run = TRY(inference::run_client(job, [&](std::int64_t now) -> Status {
      samples.push_back({now, server.in_flight()});
      return ok();
    }));
    const NullServerProcess::Counts after = TRY(server.counts());
    const std::vector<std::int64_t> arrivals = TRY(server.arrivals());
    scheduling_ = run.scheduling;
    add(inference::check_receive_error(run));
    add(inference::check_arrivals(run, arrivals));
    add(inference::check_kernel_stamps(run));
    add(inference::check_send_lateness(run));
    add(inference::check_counters(run, before, after));
    add(inference::check_littles_law(run, samples));
    return ok();
  }

  void ladder() {
    say("answers after 0.1, 1, 10 and 100 ms (e)");
    // Between two requests every processor has time to fall asleep, and how long a machine takes to
    // wake is not the client's doing.
    std::vector<inference::Rung> awake, asleep;
    for (const double ms : kLadderMs) {
      for (const bool keep_awake : {true, false}) {
        Result<inference::Rung> rung = this->rung(ms, keep_awake);
        if (!rung.ok()) return add_failed({{"e", "delay ladder"}}, rung.error());
        (keep_awake ? awake : asleep).push_back(std::move(*rung));
      }
    }
    add(kept_awake_ ? inference::check_delay_ladder(awake, asleep)
                    : inference::check_delay_ladder(asleep));
  }

  Result<inference::Rung> rung(double ms, bool keep_awake) {
    const NullServerProcess server = TRY(this->server(ms, 1));
    ClientJob job = this->job(server);
    for (int i = 0; i < (options_.quick ? 15 : 50); ++i)
      job.requests.push_back({i * kLadderSpacing, 2});
    job.keep_awake = keep_awake;
    const ClientRun run = TRY(inference::run_client(job));
    if (keep_awake) kept_awake_ = run.kept_awake;
    inference::Rung out;
    out.asked_s = ms * 1e-3;
    for (const inference::SeenRequest& request : run.requests) {
      if (request.first == 0) continue;
      out.true_s.push_back(1e-9 * static_cast<double>(request.first_stamp - request.send));
      out.seen_s.push_back(1e-9 * static_cast<double>(request.first - request.sched));
    }
    return out;
  }

  // So few that the server works off what piled up within a few milliseconds.
  static JudgedLoad calm(double seconds) { return {100, seconds, 10, 4, 4000}; }

  Result<Judged> judged(const NullServerProcess& server, const JudgedLoad& load,
                        const LoadWatch& watch) const {
    const Plan plan = TRY(make_plan(judged_suite(server.url(), load), build_catalogue(), kSeed));
    Judged out;
    out.load = TRY(record_load(plan, options_.client_cpu, watch));
    const Judgement judgement = judge(plan, out.load.rows);
    for (const Json& check : judgement.checks) {
      const std::string status = text_at(check, "status");
      if (text_at(check, "id") == "load/lost") {
        const Json* observed = member(check, "observed");
        out.lost_s = observed == nullptr ? 0 : number_at(*observed, "value");
        continue;
      }
      out.statuses.push_back(status);
      const std::string detail = text_at(check, "detail");
      if (status != "pass" && status != "fail" && out.trouble.empty())
        out.trouble = text_at(check, "reason") + ", " + detail.substr(detail.find("; ") + 2);
    }
    // The last part names what to do about it.
    out.trouble = out.trouble.substr(0, out.trouble.find(';'));
    return out;
  }

  void frozen_server() {
    const double frozen_s = seconds(2, 1);
    say(format("the server stands still for %.0f s (f)", frozen_s));
    const Status status = measure_frozen_server(frozen_s);
    if (!status.ok()) add_failed({{"f", "frozen server"}}, status.error());
  }

  Status measure_frozen_server(double frozen_s) {
    NullServerProcess server = TRY(this->server(kServerTtftS * 1e3, kServerGapMs));
    const auto frozen = static_cast<std::int64_t>(frozen_s * 1e9);
    const LoadWatch watch = [&](int, std::int64_t begin, std::int64_t now) -> Status {
      if (server.stopped_at() == 0 && now >= begin + kFreezeAfter) TRY(server.stop());
      const bool stands = server.stopped_at() != 0 && server.went_on_at() == 0;
      if (stands && now >= server.stopped_at() + frozen) TRY(server.go_on());
      return ok();
    };
    const Judged judged = TRY(this->judged(server, calm(frozen_s + 1), watch));
    const double predicted_s = inference::predicted_lost_time_s(
        judged.load.sched, server.stopped_at(), server.went_on_at(), kServerTtftS, kTtftLimitS);
    add(inference::check_frozen_server(
        judged.lost_s, predicted_s,
        1e-9 * static_cast<double>(server.went_on_at() - server.stopped_at())));
    return ok();
  }

  void frozen_client() {
    const double frozen_s = seconds(2, 1);
    say(format("the client stands still for %.0f s (g)", frozen_s));
    const Status status = measure_frozen_client(frozen_s);
    if (!status.ok()) add_failed({{"g", "frozen client"}}, status.error());
  }

  Status measure_frozen_client(double frozen_s) {
    const NullServerProcess server = TRY(this->server(kServerTtftS * 1e3, kServerGapMs));
    const auto frozen = static_cast<std::int64_t>(frozen_s * 1e9);
    std::int64_t stopped_at = 0, went_on_at = 0;
    const LoadWatch watch = [&](int pid, std::int64_t begin, std::int64_t now) -> Status {
      if (stopped_at == 0 && now >= begin + kFreezeAfter) {
        if (::kill(pid, SIGSTOP) != 0) return system_error("stop the client");
        stopped_at = now;
      } else if (stopped_at != 0 && went_on_at == 0 && now >= stopped_at + frozen) {
        if (::kill(pid, SIGCONT) != 0) return system_error("let the client go on");
        went_on_at = now;
      }
      return ok();
    };
    const Judged judged = TRY(this->judged(server, calm(frozen_s + 1), watch));
    add(inference::check_frozen_client(judged.statuses, judged.trouble,
                                       1e-9 * static_cast<double>(went_on_at - stopped_at)));
    return ok();
  }

  // What client and server reach when far too much is asked.
  Result<double> ceiling() const {
    const NullServerProcess server = TRY(this->server(kServerTtftS * 1e3, kServerGapMs));
    ClientJob job = this->job(server);
    job.requests = TRY(inference::poisson_plan(20'000, 0, 0.4, kSeed, kSteadyTokens));
    const ClientRun run = TRY(inference::run_client(job));
    return 1e9 * static_cast<double>(run.requests.size()) /
           static_cast<double>(run.end_ns - run.begin_ns);
  }

  void overload() {
    say("more requests than the client can send (j)");
    const Status status = [&]() -> Status {
      const double ceiling = TRY(this->ceiling()), asked = std::min(90'000.0, kOverload * ceiling);
      const NullServerProcess server = TRY(this->server(kServerTtftS * 1e3, kServerGapMs));
      const Judged judged =
          TRY(this->judged(server, {asked, 1, 1, kSteadyTokens, kUsualInFlight}, {}));
      add(inference::check_overload(judged.statuses, judged.trouble, asked, ceiling));
      return ok();
    }();
    if (!status.ok()) add_failed({{"j", "overload"}}, status.error());
  }

  void rate_step() {
    say("200, 1,000 and 200 requests/s in turn (k)");
    const Status status = [&]() -> Status {
      const NullServerProcess server = TRY(this->server(kServerTtftS * 1e3, kServerGapMs));
      ClientJob job = this->job(server);
      const double length_s = seconds(1, 0.5);
      double begin_s = 0;
      for (const double rate : {200.0, 1000.0, 200.0}) {
        const auto part = TRY(inference::poisson_plan(rate, begin_s, length_s, kSeed, 4));
        job.requests.insert(job.requests.end(), part.begin(), part.end());
        begin_s += length_s;
      }
      const ClientRun run = TRY(inference::run_client(job));
      add(inference::check_rate_step(run));
      return ok();
    }();
    if (!status.ok()) add_failed({{"k", "rate step"}}, status.error());
  }

  const DoctorLoadOptions& options_;
  std::vector<SelfCheck> checks_;
  std::string scheduling_ = "unknown";
  bool kept_awake_ = false;
};

}  // namespace

std::vector<SelfCheck> doctor_load(const DoctorLoadOptions& options, std::string* scheduling) {
  Doctor doctor(options);
  std::vector<SelfCheck> checks = doctor.examine();
  *scheduling = doctor.scheduling();
  return checks;
}

}  // namespace mixproof
