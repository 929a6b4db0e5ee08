// haproxy: a real load balancer in front of the replicas. Its settings neither delay tokens
// (http-no-delay) nor hide a stall: no retry once a request was sent, and three failed checks
// before a replica is down, which is after 4 to 6 s of refused connections and after 10 to 12 s of
// silence (a check waits 2 s for its answer).
#include "suites/services/haproxy.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "harness/base/text.h"
#include "suites/services/kinds.h"
#include "suites/services/run_program.h"

namespace mixproof {
namespace {

constexpr const char* kMissing = "haproxy is not installed; run .ci/setup (Debian package haproxy)";

long long milliseconds(double seconds) { return std::llround(seconds * 1000); }

Status available() {
  if (find_program("haproxy").empty()) return Error{Code::kInvalid, kMissing};
  return ok();
}

// "2.6.12-1+deb12u4" of "HAProxy version 2.6.12-1+deb12u4 2026/10/17 - https://haproxy.org/".
Result<std::string> version_of(const std::string& program) {
  const ProgramOutput printed = TRY(run_program({program, "-v"}, std::chrono::seconds(5)));
  const std::vector<std::string> words = split(first_line(printed.out), ' ');
  if (printed.exit_code != 0 || words.size() < 3 || words[1] != "version")
    return Error{Code::kInvalid, program + " -v does not say its version: " + printed.out};
  return words[2];
}

Result<ServiceCommand> command(const ServiceRequest& request) {
  if (request.backends.empty())
    return Error{Code::kInvalid,
                 request.name + ": haproxy needs \"before\": the service it stands in front of"};
  const HaproxySettings settings =
      TRY(read_settings<HaproxySettings>(request.params, "/services/" + request.name + "/params"));
  const std::string program = find_program("haproxy");
  if (program.empty()) return Error{Code::kInvalid, kMissing};
  const std::string version = TRY(version_of(program));
  ServiceCommand out;
  out.argv = {program, "-db", "-f", "{dir}/haproxy.cfg"};
  out.files["haproxy.cfg"] = haproxy_config(settings, request);
  out.url = "http://" + endpoint(request);
  out.ready_url = out.url + kHaproxyReadyPath;
  out.labels = {{"proxy", "haproxy " + version}};
  return out;
}

}  // namespace

Params HaproxySettings::params() {
  const Range seconds{.min = 0.001, .max = 86400};
  return {
      number("connect_timeout_s", &connect_timeout_s,
             "longest wait for a replica to take a connection", seconds),
      number("client_timeout_s", &client_timeout_s, "longest silence of a client", seconds),
      number("server_timeout_s", &server_timeout_s,
             "longest silence of a replica; shorter than a stall, it turns the stall into errors",
             seconds)};
}

Status HaproxySettings::check(const std::string&) const { return ok(); }

// Ready means that every replica has been asked and is up: HAProxy takes servers for up until their
// first check, so the first half second, in which the first checks are spread over 100 ms, does not
// count.
std::string haproxy_config(const HaproxySettings& settings, const ServiceRequest& request) {
  std::string out =
      format(R"(global
    maxconn 4096
    nbthread 1
    max-spread-checks 100ms
    set-var proc.started date(0,ms)

defaults
    mode http
    maxconn 4096
    balance roundrobin
    option http-no-delay
    option redispatch
    timeout connect %lldms
    timeout client %lldms
    timeout server %lldms

frontend users
    bind %s
    monitor-uri %s
    monitor fail if { nbsrv(replicas) lt %zu }
    monitor fail if { date(0,ms),sub(proc.started) lt 500 }
    stats enable
    stats uri %s
    default_backend replicas

backend replicas
    option httpchk GET /health
    default-server check inter 2s fall 3
)",
             milliseconds(settings.connect_timeout_s), milliseconds(settings.client_timeout_s),
             milliseconds(settings.server_timeout_s), endpoint(request).c_str(), kHaproxyReadyPath,
             request.backends.size(), kHaproxyStatsPath);
  for (std::size_t i = 0; i < request.backends.size(); ++i)
    out += format("    server replica-%zu %s\n", i, request.backends[i].c_str());
  return out;
}

const ServiceKind haproxy_service = {
    .name = "haproxy",
    .summary = "HAProxy in front of the replicas of another service: round robin, shows stalls",
    .port = 8000,
    .check_params = check_settings<HaproxySettings>,
    .available = available,
    .command = command,
    .schema = settings_schema<HaproxySettings>,
};

}  // namespace mixproof
