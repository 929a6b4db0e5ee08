#include "tests/e2e/ssh_cluster.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "harness/base/text.h"
#include "tests/fake/paths.h"

namespace mixproof {
namespace {

constexpr const char* kServer = "/usr/sbin/sshd";
constexpr const char* kClient = "/usr/bin/ssh";
// Where OpenSSH's unprivileged half is locked into, as Debian builds it; its init script makes it.
constexpr const char* kEmptyDirectory = "/run/sshd";

std::string text_of_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

void SshRun::SetUp() {
  for (const char* program : {kServer, kClient})
    if (::access(program, X_OK) != 0)
      GTEST_SKIP() << program << " is not installed (packages openssh-server, openssh-client)";
  LabRun::SetUp();
}

void SshRun::TearDown() {
  for (auto& [name, server] : servers_) end_inside(*server);
  servers_.clear();
  if (!lab_.name.empty()) {
    EXPECT_TRUE(lab_down(lab_.name).ok());
  }
  LabRun::TearDown();
}

void SshRun::end_inside(Command& command) {
  std::ifstream children(format("/proc/%d/task/%d/children", command.pid(), command.pid()));
  for (int pid = 0; children >> pid;) ::kill(pid, SIGTERM);
  EXPECT_TRUE(command.wait(Seconds(20)).in_time);
}

void SshRun::bring_up(const std::string& nodes) {
  LabRequest request;
  request.name = "ssh-" + std::to_string(::getpid());
  request.standing = true;
  request.nodes = parse_lab_nodes(nodes + ",control=1").value();
  request.init_binary = kMixproofBinary;
  const Result<Lab> lab = lab_up(request);
  ASSERT_TRUE(lab.ok()) << lab.error().message;
  lab_ = *lab;
  ASSERT_TRUE(::mkdir(kEmptyDirectory, 0755) == 0 || errno == EEXIST);
  CommandOptions keygen;
  keygen.program = "/usr/bin/ssh-keygen";
  const auto make_key = [&](const std::string& name) {
    return run({"-q", "-t", "ed25519", "-N", "", "-f", path(name)}, keygen).status == 0;
  };
  ASSERT_TRUE(make_key("user") && make_key("stranger"));
  std::string known;
  for (const LabNode& one : lab_.nodes) {
    if (one.name == kController) continue;
    ASSERT_TRUE(make_key("host-" + one.name));
    const std::vector<std::string> words =
        split(text_of_file(path("host-" + one.name + ".pub")), ' ');
    known += one.address + " " + words.at(0) + " " + words.at(1) + "\n";
    const bool greets = one.name == "serve-0";
    const std::string config = write(
        "sshd-" + one.name,
        "ListenAddress " + one.address + "\nPort 22\nPidFile none\nHostKey " +
            path("host-" + one.name) + "\nAuthorizedKeysFile " + path("user.pub") +
            "\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n"
            "KbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\nLogLevel INFO\n" +
            (greets ? "Banner " + write("banner", "Authorised use only {really}.\n") +
                          "\nForceCommand echo 'Maintenance at noon: {\"rack\": 7}'; "
                          "exec $SSH_ORIGINAL_COMMAND\n"
                    : ""));
    servers_[one.name] = start(
        {"lab", "exec", one.name, "--name", lab_.name, "--", kServer, "-D", "-e", "-f", config});
  }
  write("known_hosts", known);
  ssh_config("ssh_config", "user", "known_hosts");
  for (const auto& [name, server] : servers_)
    ASSERT_TRUE(server->wait_for("Server listening on", Seconds(20))) << name << server->err();
}

std::string SshRun::ssh_config(const std::string& name, const std::string& key,
                               const std::string& known_hosts) const {
  return write(name, "Host *\n  User root\n  IdentityFile " + path(key) +
                         "\n  IdentitiesOnly yes\n  IdentityAgent none\n  BatchMode yes\n"
                         "  StrictHostKeyChecking yes\n  UserKnownHostsFile " +
                         path(known_hosts) +
                         "\n  GlobalKnownHostsFile /dev/null\n  ConnectTimeout 10\n"
                         "  ServerAliveInterval 5\n  ServerAliveCountMax 3\n");
}

std::string SshRun::inventory(const std::string& name,
                              const std::function<void(Json& inventory)>& change) const {
  Json nodes = Json::array();
  for (const LabNode& one : lab_.nodes)
    if (one.name != kController)
      nodes.push_back({{"name", one.name},
                       {"address", one.address},
                       {"roles", {one.role}},
                       {"transport", "ssh"}});
  Json out = {{"nodes", nodes},
              {"transports",
               {{"ssh",
                 {{"prefix", {"ssh", "-F", path("ssh_config"), "{address}"}},
                  {"agent", kMixproofBinary}}}}}};
  if (change) change(out);
  return write(name, out.dump(1));
}

std::unique_ptr<Command> SshRun::on_controller(const std::vector<std::string>& args) {
  std::vector<std::string> words = {"lab",     "exec", kController,    "--name",
                                    lab_.name, "--",   kMixproofBinary};
  words.insert(words.end(), args.begin(), args.end());
  return start(words);
}

Ended SshRun::run_on_controller(const std::vector<std::string>& args, Seconds deadline) {
  Ended ended = on_controller(args)->wait(deadline);
  EXPECT_TRUE(ended.in_time) << "no end in " << deadline.count() << " s: " << join(args, " ");
  return ended;
}

const LabNode& SshRun::node(const std::string& name) const {
  return *std::find_if(lab_.nodes.begin(), lab_.nodes.end(),
                       [&](const LabNode& one) { return one.name == name; });
}

std::vector<int> SshRun::clients_of(const std::string& name) const {
  std::vector<int> out;
  for (const int pid : processes_in(lab_.name, kController, "ssh")) {
    const std::vector<std::string> words =
        split(text_of_file(format("/proc/%d/cmdline", pid)), '\0');
    if (std::find(words.begin(), words.end(), node(name).address) != words.end())
      out.push_back(pid);
  }
  return out;
}

int SshRun::logins(const std::string& name) const {
  const std::string log = servers_.at(name)->err(), word = "Accepted publickey";
  int out = 0;
  for (std::size_t at = log.find(word); at != std::string::npos; at = log.find(word, at + 1)) ++out;
  return out;
}

int SshRun::pid_inside(const std::string& name, const std::string& pattern) {
  const Ended found =
      run({"lab", "exec", name, "--name", lab_.name, "--", "pgrep", "-o", "-f", pattern});
  return std::atoi(found.out.c_str());
}

}  // namespace mixproof
