// Runs over ssh: the same suites and the same checks as in a lab, what goes wrong on the way said
// in ssh's own words, and nothing left when a connection dies.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/base/cpus.h"
#include "harness/base/text.h"
#include "harness/cli/environment.h"
#include "suites/services/service.h"
#include "tests/e2e/ssh_cluster.h"
#include "tests/fake/paths.h"

namespace mixproof {
namespace {

constexpr Seconds kStart{40}, kEnd{60};

class OverSsh : public SshRun {
 protected:
  static std::set<std::string> checks_of(const Json& report) {
    std::set<std::string> out;
    for (const Json& check : report["checks"])
      out.insert(text_at(check, "id") + " " + text_at(check, "phase") + " " +
                 text_at(check, "method") + " " + text_at(check, "metric"));
    return out;
  }

  // The suite `short`, whose pause lasts longer than any test; its report goes to "run".
  std::unique_ptr<Command> start_held(const std::string& site, std::vector<std::string> more) {
    std::vector<std::string> args = {"run",
                                     suite("short"),
                                     "-i",
                                     site,
                                     "--yes",
                                     "-o",
                                     path("run"),
                                     "--set",
                                     "phases.pause.measure_s=60",
                                     "--set",
                                     "phases.pause.faults.0.for_s=50"};
    args.insert(args.end(), more.begin(), more.end());
    auto run = on_controller(args);
    EXPECT_TRUE(run->wait_for("process_pause on llm[0]: effective", kStart)) << run->err();
    return run;
  }

  // As the kernel writes it: "0-1".
  static std::string cores_of(int pid) {
    std::ifstream file(format("/proc/%d/status", pid));
    const std::string key = "Cpus_allowed_list:\t";
    for (std::string line; std::getline(file, line);)
      if (starts_with(line, key)) return line.substr(key.size());
    return "";
  }

  void expect_faults_clean(const Json& report) const {
    EXPECT_GE(integer_at(report["safety"], "injected"), 1);
    for (const char* state : {"effective", "clean"})
      EXPECT_EQ(report["safety"][state], report["safety"]["injected"]) << report["safety"].dump(1);
  }

  // Groups of the run that the agents made for it.
  static std::string groups_left() {
    std::string out;
    std::error_code error;
    for (const char* root : {"/sys/fs/cgroup", "/sys/fs/cgroup/freezer", "/sys/fs/cgroup/cpuset"})
      for (const auto& entry :
           std::filesystem::directory_iterator(std::string(root) + "/mixproof", error)) {
        const std::string name = entry.path().filename().string();
        if (starts_with(name, "short-") || starts_with(name, "mixed_sla-"))
          out += entry.path().string() + "\n";
      }
    return out;
  }
};

TEST_F(OverSsh, MixedSlaGivesTheSameChecksAsInTheLab) {
  for (const char* kind : {"llama_cpp", "haproxy"}) {
    const Status available = service_kind(kind)->available();
    if (!available.ok()) GTEST_SKIP() << available.error().message;
  }
  ASSERT_NO_FATAL_FAILURE(bring_up("edge=1,serve=2,train=2"));
  // These machines share the cores of one, and are kept apart on them as a lab's nodes are.
  const std::vector<int> cores = allowed_cpus();
  const std::string site = inventory("site.json", [&](Json& json) {
    for (Json& one : json["nodes"]) {
      const std::string role = one["roles"][0];
      if (role != "edge" && cores.size() > 1) one["cpus"] = std::to_string(cores[role == "train"]);
    }
  });
  const Ended ssh = run_on_controller({"run", shortened("mixed_sla", 4, 2.5), "-i", site, "--yes",
                                       "--seed", "4", "-o", path("ssh")},
                                      Seconds(170));
  ASSERT_TRUE(ssh.status == 0 || ssh.status == 1 || ssh.status == 2) << ssh.status << ssh.err;
  const Json over_ssh = report("ssh");
  EXPECT_EQ(breaks("report", "ssh/report.json"), "");
  expect_faults_clean(over_ssh);
  for (const Json& check : over_ssh["checks"])
    EXPECT_TRUE(text_at(check, "status") != "error" && text_at(check, "status") != "skipped")
        << check.dump(1);
  for (const auto& [name, server] : servers_) EXPECT_EQ(logins(name), 1) << name;

  const Ended lab = start_run({shortened("mixed_sla", 1.5, 1), "--seed", "4", "-o", path("lab")})
                        ->wait(Seconds(170));
  ASSERT_TRUE(lab.status == 0 || lab.status == 1 || lab.status == 2) << lab.status << lab.err;
  EXPECT_EQ(checks_of(over_ssh), checks_of(report("lab")));
  EXPECT_FALSE(checks_of(over_ssh).empty());
  EXPECT_EQ(groups_left(), "");
}

TEST_F(OverSsh, ThreeMachinesAreDrivenAndTheirClocksFollowed) {
  ASSERT_NO_FATAL_FAILURE(bring_up("edge=1,serve=2"));
  const Ended ended = run_on_controller(
      {"run", suite("short"), "-i", inventory("site.json"), "--yes", "-o", path("run")});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_TRUE(ended.says("nodes: inventory " + path("site.json"))) << ended.err;
  const Json seen = report("run");
  expect_faults_clean(seen);
  // The clocks of the lab's nodes lie thousands of seconds apart, the controller's among them.
  std::set<std::int64_t> offsets;
  for (const Json& row : recorded("run"))
    if (text_at(row, "row") == "clock") {
      offsets.insert(integer_at(row, "offset_ns") / 100'000'000'000);
      EXPECT_GT(integer_at(row, "uncertainty_ns"), 0) << row.dump();
      EXPECT_LT(integer_at(row, "uncertainty_ns"), 1'000'000'000) << row.dump();
    }
  EXPECT_EQ(offsets.size(), 3u) << "one a node";
  const Json& clocks = seen["environment"]["observed"]["clocks"];
  for (const auto& [name, server] : servers_) {
    EXPECT_EQ(logins(name), 1) << name;
    EXPECT_GT(number_at(clocks[name], "uncertainty_s"), 0.0) << clocks.dump(1);
    EXPECT_TRUE(processes_in(lab_.name, name, "agent").empty()) << name;
  }
  EXPECT_EQ(groups_left(), "");
}

TEST_F(OverSsh, AConnectionThatDiesTakesItsFaultAlongAndANewOneProvesIt) {
  ASSERT_NO_FATAL_FAILURE(bring_up("edge=1,serve=2"));
  const std::string core = std::to_string(allowed_cpus().at(0));
  const std::string site = inventory("site.json", [&](Json& json) {
    for (Json& one : json["nodes"])
      if (text_at(one, "name") == "serve-0") one["cpus"] = core;
  });
  auto run = start_held(site, {"--set", "placement=physical"});
  const int paused = process_in(lab_.name, "serve-0", "null-server");
  ASSERT_EQ(state_of_process(paused), 't');
  EXPECT_EQ(cores_of(paused), core);
  EXPECT_EQ(cores_of(process_in(lab_.name, "serve-1", "null-server")), cores_of(::getpid()));
  const std::vector<int> clients = clients_of("serve-0");
  ASSERT_EQ(clients.size(), 1u);
  ASSERT_EQ(::kill(clients[0], SIGKILL), 0);
  // Far sooner than its lease of 15 s: the agent reverts when its input ends.
  EXPECT_TRUE(eventually([&] { return state_of_process(paused) != 't'; }, Seconds(8)));
  const Ended ended = run->wait(kEnd);
  EXPECT_EQ(ended.status, 3) << ended.err;
  EXPECT_TRUE(ended.says("node serve-0 is lost: the agent on serve-0 was killed by signal 9"))
      << ended.err;
  EXPECT_TRUE(ended.says("1 clean; nothing left")) << ended.err;
  const Json seen = report("run");
  EXPECT_EQ(seen["safety"]["clean"], 1) << seen["safety"].dump(1);
  EXPECT_EQ(breaks("report", "run/report.json"), "");
  EXPECT_EQ(logins("serve-0"), 2) << "the agent that proved it came over a connection of its own";
  EXPECT_EQ(logins("serve-1"), 1);
  for (const char* word : {"agent", "guard", "null-server"})
    EXPECT_TRUE(
        eventually([&] { return processes_in(lab_.name, "serve-0", word).empty(); }, Seconds(15)))
        << word;
  EXPECT_TRUE(eventually([] { return groups_left().empty(); }, Seconds(5))) << groups_left();
}

TEST_F(OverSsh, ANodeThatIsCutOffUndoesEverythingByItself) {
  ASSERT_NO_FATAL_FAILURE(bring_up("edge=1,serve=2"));
  auto run = start_held(inventory("site.json"), {"--set", "lease_s=4", "--set", "renew_s=1"});
  const int paused = process_in(lab_.name, "serve-0", "null-server");
  ASSERT_EQ(state_of_process(paused), 't');
  // No end of a connection reaches the node: its packets just stop.
  ASSERT_EQ(this->run({"lab", "exec", "serve-0", "--name", lab_.name, "--", "ip", "link", "set",
                       "eth0", "down"})
                .status,
            0);
  const Ended ended = run->wait(Seconds(90));
  EXPECT_EQ(ended.status, 5) << "nobody could be asked whether the fault is gone\n" << ended.err;
  EXPECT_TRUE(ended.says("node serve-0 is lost")) << ended.err;
  EXPECT_TRUE(eventually([&] { return state_of_process(paused) != 't'; }, Seconds(30)));
  for (const char* word : {"agent", "guard", "null-server"})
    EXPECT_TRUE(
        eventually([&] { return processes_in(lab_.name, "serve-0", word).empty(); }, Seconds(45)))
        << word;
  EXPECT_EQ(this->run({"lab", "exec", "serve-0", "--name", lab_.name, "--", "ip", "link", "set",
                       "eth0", "up"})
                .status,
            0);
  const Ended status = run_on_controller({"fault", "status", "-i", path("site.json")});
  EXPECT_EQ(status.status, 0) << status.err;
  EXPECT_TRUE(status.says("serve-0  short-") && status.says("clean")) << status.err;
}

TEST_F(OverSsh, WhatGoesWrongOnTheWayIsSaidInSshsWordsAndNothingIsRun) {
  ASSERT_NO_FATAL_FAILURE(bring_up("edge=1,serve=2"));
  ssh_config("stranger_config", "stranger", "known_hosts");
  write("nobody_known", "");
  ssh_config("nobody_config", "user", "nobody_known");
  const std::string old = write(
      "old-mixproof", "#!/bin/sh\necho '{\"mixproof\": \"agent\", \"build\": \"old\"}'\ncat\n");
  std::filesystem::permissions(old, std::filesystem::perms::owner_all);
  const std::string config = path("ssh_config");
  struct Trouble {
    const char* what;
    std::vector<std::string> prefix;
    std::string agent;
    int status;
    std::vector<std::string> said;
  };
  const std::vector<Trouble> troubles = {
      {"a key that the node does not accept",
       {"ssh", "-F", path("stranger_config"), "{address}"},
       kMixproofBinary,
       4,
       {"ended with status 255", "Permission denied (publickey)"}},
      {"a host key that nobody knows",
       {"ssh", "-F", path("nobody_config"), "{address}"},
       kMixproofBinary,
       4,
       {"ended with status 255", "Host key verification failed"}},
      {"a port where nobody listens",
       {"ssh", "-F", config, "-p", "23", "{address}"},
       kMixproofBinary,
       6,
       {"ended with status 255", "Connection refused"}},
      {"an address that nobody has",
       {"ssh", "-F", config, "-o", "ConnectTimeout=2", "10.77.0.250"},
       kMixproofBinary,
       6,
       {"ended with status 255", "10.77.0.250 port 22"}},
      {"a program that is not there",
       {"ssh", "-F", config, "{address}"},
       "/nowhere/mixproof",
       4,
       {"ended with status 127", "/nowhere/mixproof"}},
      {"a program of another build",
       {"ssh", "-F", config, "{address}"},
       old,
       4,
       {"is of another build (old, ours is", "install the same mixproof there"}},
      {"no ssh here", {"no-such-ssh", "{address}"}, kMixproofBinary, 4, {"start no-such-ssh"}}};
  int number = 0;
  for (const Trouble& trouble : troubles) {
    const std::string bad = inventory("bad.json", [&](Json& site) {
      site["transports"]["bad"] = {{"prefix", trouble.prefix}, {"agent", trouble.agent}};
      for (Json& one : site["nodes"])
        if (text_at(one, "name") == "serve-1") one["transport"] = "bad";
    });
    const std::string directory = format("run-%d", number++);
    const Ended ended =
        run_on_controller({"run", suite("short"), "-i", bad, "--yes", "-o", path(directory)});
    EXPECT_EQ(ended.status, trouble.status) << trouble.what << "\n" << ended.err;
    EXPECT_TRUE(ended.says("node serve-1 is lost")) << trouble.what << "\n" << ended.err;
    for (const std::string& words : trouble.said)
      EXPECT_TRUE(ended.says(words)) << trouble.what << ": " << words << "\n" << ended.err;
    const Ended asked = run_on_controller({"fault", "status", "-i", bad});
    EXPECT_EQ(asked.status, trouble.status) << trouble.what << "\n" << asked.err;
    for (const std::string& words : trouble.said)
      EXPECT_TRUE(asked.says(words)) << trouble.what << ": " << words << "\n" << asked.err;
  }
  EXPECT_EQ(groups_left(), "");
}

TEST_F(OverSsh, CommandsByHandWorkAndAnAgentKeepsFaultsFromItsSshd) {
  ASSERT_NO_FATAL_FAILURE(bring_up("serve=2"));
  const std::string site = inventory("site.json");
  const Ended status = run_on_controller({"fault", "status", "-i", site});
  EXPECT_EQ(status.status, 0) << status.err;
  EXPECT_TRUE(status.says("2 nodes, 0 faults in their journals")) << status.err;

  const std::string sshd = std::to_string(pid_inside("serve-1", "sshd.*listener"));
  ASSERT_NE(sshd, "0");
  const Ended probe = run_on_controller({"probe", "process_progress", "-i", site, "--on", "serve-1",
                                         "--pid", sshd, "--param", "window_s=0.2"});
  EXPECT_EQ(probe.status, 0) << probe.err;
  EXPECT_NE(probe.out.find("\"row\":\"progress\""), std::string::npos) << probe.out;

  const auto plan_pause_of = [&](const std::string& pid) {
    return run_on_controller({"fault", "inject", "process_pause", "-i", site, "--on", "serve-1",
                              "--pid", pid, "--dry-run"});
  };
  const Ended refused = plan_pause_of(sshd);
  EXPECT_EQ(refused.status, 4) << refused.err;
  EXPECT_TRUE(refused.says("process " + sshd + " is protected")) << refused.err;
  EXPECT_EQ(plan_pause_of("1").status, 4) << "the node's first process";
  auto sleeper = start({"lab", "exec", "serve-1", "--name", lab_.name, "--", "sleep", "60"});
  ASSERT_NE(process_in(lab_.name, "serve-1", "sleep"), 0);
  const int other = pid_inside("serve-1", "^sleep 60");
  ASSERT_GT(other, 1);
  const Ended planned = plan_pause_of(std::to_string(other));
  EXPECT_EQ(planned.status, 0) << "another process of the node may be paused\n" << planned.err;
  end_inside(*sleeper);
}

}  // namespace
}  // namespace mixproof
