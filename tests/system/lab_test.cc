// What a lab is while it is up: nodes that are apart, joined by shaped links that lead nowhere
// else.
#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>

#include <chrono>
#include <cmath>
#include <ctime>
#include <set>

#include "tests/fake/paths.h"
#include "tests/system/lab_fixture.h"

namespace mixproof {
namespace {

double seconds(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// How far the node's clock is ahead of ours.
double clock_shift(const LabNode& node, clockid_t clock) {
  int fds[2];
  if (::pipe(fds) != 0) return NAN;
  const int pid = ::fork();
  if (pid == 0) {
    const int ns =
        ::open(("/proc/" + std::to_string(node.init_pid) + "/ns/time").c_str(), O_RDONLY);
    if (::setns(ns, CLONE_NEWTIME) != 0) ::_exit(1);
    const double inside = seconds(clock);
    ::_exit(::write(fds[1], &inside, sizeof inside) == sizeof inside ? 0 : 1);
  }
  ::close(fds[1]);
  double inside = NAN;
  const bool got = ::read(fds[0], &inside, sizeof inside) == sizeof inside;
  ::close(fds[0]);
  ::waitpid(pid, nullptr, 0);
  return got ? inside - seconds(clock) : NAN;
}

TEST_F(LabSystem, NodesAreMachinesOfTheirOwn) {
  const Result<Lab> lab = lab_up(request("edge=1,serve=2"));
  ASSERT_TRUE(lab.ok()) << lab.error().message;
  std::set<std::string> boots = {text_of("/proc/sys/kernel/random/boot_id")}, identities;
  std::set<long> monotonic, boottime;
  for (const LabNode& node : lab->nodes) {
    EXPECT_EQ(in_node(node.name, "hostname").text, node.name + "\n");
    boots.insert(in_node(node.name, "cat /proc/sys/kernel/random/boot_id").text);
    monotonic.insert(std::lround(clock_shift(node, CLOCK_MONOTONIC)));
    boottime.insert(std::lround(clock_shift(node, CLOCK_BOOTTIME)));
    EXPECT_LT(std::fabs(clock_shift(node, CLOCK_REALTIME)), 1.0) << "wall clocks are common";
    EXPECT_EQ(in_node(node.name, "ls /sys/class/net").text, "eth0\nlo\n");
    EXPECT_EQ(in_node(node.name, "cat /proc/1/comm").text, "mixproof-init\n");
    identities.insert(in_node(node.name, "cat /var/lib/mixproof/node.json").text);
    EXPECT_EQ(text_of(node.state_dir + "/node.json"),
              in_node(node.name, "cat /var/lib/mixproof/node.json").text);
  }
  EXPECT_EQ(boots.size(), 4u) << "three nodes and this machine";
  EXPECT_EQ(identities.size(), 3u);
  EXPECT_EQ(monotonic.size(), 3u);
  EXPECT_EQ(boottime.size(), 3u);
  EXPECT_GE(*monotonic.begin(), 1000);
  const std::string identity = in_node("serve-1", "cat /var/lib/mixproof/node.json").text;
  for (const char* part :
       {"\"node\":\"serve-1\"", "\"role\":\"serve\"", "\"address\":\"10.77.0.4\""})
    EXPECT_NE(identity.find(part), std::string::npos) << identity;
}

TEST_F(LabSystem, ANodeSeesItsOwnProcessesOnlyAndItsInitReapsThem) {
  const Result<Lab> lab = lab_up(request());
  ASSERT_TRUE(lab.ok()) << lab.error().message;
  const int other = ::fork();
  if (other == 0) {
    const std::vector<std::string> prefix = lab_prefix(lab->nodes[1]);
    std::vector<char*> argv;
    for (const std::string& word : prefix) argv.push_back(const_cast<char*>(word.c_str()));
    char command[] = "sleep", time[] = "4711";
    for (char* word : {command, time, static_cast<char*>(nullptr)}) argv.push_back(word);
    ::execvp(argv[0], argv.data());
    ::_exit(1);
  }
  for (int i = 0; i < 200 && in_node("serve-0", "pgrep -f 471[1]").status != 0; ++i)
    ::usleep(10000);
  EXPECT_EQ(in_node("serve-0", "pgrep -f 471[1]").status, 0) << "its own node sees it";
  EXPECT_EQ(in_node("edge-0", "pgrep -f 471[1]").status, 1) << "another node does not";

  in_node("edge-0", "(sleep 0.05 &)");  // its parent ends at once: the init adopts it
  ::usleep(300000);
  EXPECT_EQ(in_node("edge-0", "ps ax -o stat,comm | grep -c sleep").text, "0\n")
      << "neither running nor a zombie";

  ASSERT_TRUE(lab_down(name_).ok());
  int status = 0;
  ASSERT_EQ(::waitpid(other, &status, 0), other);
  EXPECT_NE(status, 0) << "what was started in a node ends with it";
}

TEST_F(LabSystem, NodesReachOneAnotherAndNothingElse) {
  const Result<Lab> lab = lab_up(request("edge=1,serve=1,train=1"));
  ASSERT_TRUE(lab.ok()) << lab.error().message;
  for (const LabNode& peer : lab->nodes)
    EXPECT_EQ(in_node("edge-0", "ping -c 1 -W 2 " + peer.address).status, 0) << peer.name;
  const Outcome outside = in_node("edge-0", "ping -c 1 -W 1 192.0.2.1");
  EXPECT_NE(outside.text.find("unreachable"), std::string::npos) << outside.text;
  EXPECT_EQ(in_node("edge-0", "ip route | cut -d \" \" -f 1").text, "10.77.0.0/24\n");
  EXPECT_NE(in_node("edge-0", "ping -c 1 -W 1 10.77.0.9").status, 0) << "no such node";

  // The fabric holds the bridge and one port a node: no device that could lead out, and no address.
  const std::string fabric = "nsenter -t " + std::to_string(lab->fabric_pid) + " -n ";
  EXPECT_EQ(shell(fabric + "ls /proc/net/dev_snmp6 | sort").status, 0);
  EXPECT_EQ(shell(fabric + "ip -br link | cut -d ' ' -f 1 | cut -d @ -f 1 | sort").text,
            "bridge0\nlo\nport0\nport1\nport2\n");
  EXPECT_EQ(shell(fabric + "ip -4 -br address show scope global").text, "");
  EXPECT_EQ(shell("ip -br address | grep -c 10.77.0").text, "0\n")
      << "this machine is not on the lab's network";
  EXPECT_EQ(shell("ip -o link").text, links_before_);
}

TEST_F(LabSystem, LinksAreShapedAtBothEnds) {
  LabRequest wanted = request();
  wanted.link_bits_per_s = 250e6;
  const Result<Lab> lab = lab_up(wanted);
  ASSERT_TRUE(lab.ok()) << lab.error().message;
  for (const LabNode& node : lab->nodes) {
    const std::string inside = in_node(node.name, "tc qdisc show dev eth0").text;
    EXPECT_NE(inside.find("tbf"), std::string::npos) << inside;
    EXPECT_NE(inside.find("rate 250Mbit"), std::string::npos) << inside;
  }
  for (const char* port : {"port0", "port1"}) {
    const std::string there =
        shell("nsenter -t " + std::to_string(lab->fabric_pid) + " -n tc qdisc show dev " + port)
            .text;
    EXPECT_NE(there.find("rate 250Mbit"), std::string::npos) << there;
  }
}

TEST_F(LabSystem, StorageIsOneFileSystemForAllNodesAndAllocatedInFull) {
  const Result<Lab> lab = lab_up(request());
  ASSERT_TRUE(lab.ok()) << lab.error().message;
  EXPECT_EQ(in_node("edge-0", "echo from-edge > /run/mixproof/shared/note").status, 0);
  EXPECT_EQ(in_node("serve-0", "cat /run/mixproof/shared/note").text, "from-edge\n");
  EXPECT_EQ(text_of(lab->dir + "/shared/note"), "from-edge\n");
  EXPECT_EQ(in_node("serve-0", "stat -f -c %T /run/mixproof/shared").text, "ext2/ext3\n");
  EXPECT_EQ(in_node("serve-0", "echo private > /var/lib/mixproof/mine").status, 0);
  EXPECT_NE(in_node("edge-0", "cat /var/lib/mixproof/mine").status, 0)
      << "state directories are apart";
  struct stat image {};
  ASSERT_EQ(::stat((lab->dir + "/shared.img").c_str(), &image), 0);
  EXPECT_GE(image.st_blocks * 512, image.st_size);
}

TEST_F(LabSystem, DownThawsAFrozenFileSystemWithAStuckWriter) {
  const Result<Lab> lab = lab_up(request());
  ASSERT_TRUE(lab.ok()) << lab.error().message;
  ASSERT_EQ(in_node("edge-0", "fsfreeze -f /run/mixproof/shared").status, 0);
  in_node("serve-0", "(echo stuck > /run/mixproof/shared/x) >/dev/null 2>&1 &");
  ::usleep(100000);
  const Status down = lab_down(name_);
  EXPECT_TRUE(down.ok()) << down.error().message;
}

TEST_F(LabSystem, InitsAreInTheCgroupsOfTheirNodesAndKeepNothingOfTheirMaker) {
  const Result<Lab> lab = lab_up(request());
  ASSERT_TRUE(lab.ok()) << lab.error().message;
  for (const LabNode& node : lab->nodes) {
    const std::string proc = "/proc/" + std::to_string(node.init_pid);
    EXPECT_NE(text_of(proc + "/cgroup").find("/" + node.cgroup), std::string::npos)
        << text_of(proc + "/cgroup");
    EXPECT_EQ(shell("ls " + proc + "/fd").text, "0\n1\n2\n");
    EXPECT_NE(::getsid(node.init_pid), ::getsid(0));
    EXPECT_NE(shell("ps -o ppid= -p " + std::to_string(node.init_pid)).text,
              std::to_string(::getpid()) + "\n");
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGCHLD})
      ::kill(node.init_pid, signal);
  }
  ::usleep(50000);
  for (const LabNode& node : lab->nodes)
    EXPECT_TRUE(lab_process_alive(node.init_pid, node.init_start));
}

TEST_F(LabSystem, TwoLabsAreApart) {
  ASSERT_TRUE(lab_up(request()).ok());
  LabRequest two = request();
  two.name = name_ + "-two";
  const Result<Lab> second = lab_up(two);
  ASSERT_TRUE(second.ok()) << second.error().message;
  // The second lab's nodes were made while the first one's storage was mounted: they must not hold
  // on to it.
  const Status down = lab_down(name_);
  ASSERT_TRUE(down.ok()) << down.error().message;
  for (const LabNode& node : second->nodes)
    EXPECT_TRUE(lab_process_alive(node.init_pid, node.init_start));
  const std::string prefix = lab_command("exec edge-0 --name " + two.name + " -- ");
  EXPECT_EQ(shell(prefix + "ping -c 1 -W 2 10.77.0.3").status, 0);
  EXPECT_EQ(shell(prefix + "touch /run/mixproof/shared/x").status, 0);
  ASSERT_TRUE(lab_down(two.name).ok());
}

TEST_F(LabSystem, AClaimIsExclusiveAndEndsWithItsProcess) {
  const Result<Lab> lab = lab_up(request());
  ASSERT_TRUE(lab.ok()) << lab.error().message;
  EXPECT_FALSE(lab_user(lab.value()).has_value());
  int fds[2];
  ASSERT_EQ(::pipe(fds), 0);
  const int holder = ::fork();
  if (holder == 0) {
    const char said = lab_claim(lab.value()).ok() ? 'y' : 'n';
    if (::write(fds[1], &said, 1) == 1) ::pause();
    ::_exit(0);
  }
  char said = '?';
  ASSERT_EQ(::read(fds[0], &said, 1), 1);
  ASSERT_EQ(said, 'y');
  const Status refused = lab_claim(lab.value());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kRefused);
  EXPECT_NE(refused.error().message.find(std::to_string(holder)), std::string::npos)
      << refused.error().message;
  const Outcome down = shell(lab_command("down " + name_));
  EXPECT_EQ(down.status, 6) << down.text;
  EXPECT_TRUE(lab_process_alive(lab->nodes[0].init_pid, lab->nodes[0].init_start))
      << "a lab in use stays up";

  ::kill(holder, SIGKILL);
  ::waitpid(holder, nullptr, 0);
  EXPECT_FALSE(lab_user(lab.value()).has_value());
  EXPECT_TRUE(lab_claim(lab.value()).ok());
  EXPECT_FALSE(lab_claim(lab.value()).ok()) << "not twice, even by one process";
  EXPECT_EQ(shell(lab_command("down --force " + name_)).status, 0);
}

TEST_F(LabSystem, ALabWithADeadNodeCannotBeClaimed) {
  const Result<Lab> lab = lab_up(request());
  ASSERT_TRUE(lab.ok()) << lab.error().message;
  ::kill(lab->nodes[1].init_pid, SIGKILL);
  for (int i = 0; i < 200 && lab_process_alive(lab->nodes[1].init_pid, lab->nodes[1].init_start);
       ++i)
    ::usleep(5000);
  const Status refused = lab_claim(lab.value());
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("serve-0 is gone"), std::string::npos)
      << refused.error().message;
  EXPECT_FALSE(lab_is_stale(lab.value())) << "a person may want to look at it";
  EXPECT_EQ(in_node("serve-0", "true").status, 6);
}

TEST_F(LabSystem, CommandLineSaysWhatHappenedByItsStatus) {
  const std::string up = "up --nodes edge=1,serve=1 --name " + name_;
  const Outcome made = shell(lab_command(up));
  ASSERT_EQ(made.status, 0) << made.text;
  EXPECT_EQ(shell(lab_command(up)).status, 6) << "it is up already";
  EXPECT_EQ(shell(lab_command("status --json") +
                  " 2>/dev/null | python3 -c \"import json,sys; "
                  "print([n['alive'] for l in json.load(sys.stdin) if l['name'] == '" +
                  name_ + "' for n in l['nodes']])\"")
                .text,
            "[True, True]\n");
  EXPECT_EQ(in_node("edge-0", "exit 7").status, 7);
  const Outcome unknown = shell(lab_command("exec edge-7 --name " + name_ + " -- true"));
  EXPECT_EQ(unknown.status, 4);
  EXPECT_NE(unknown.text.find("it has edge-0, serve-0"), std::string::npos) << unknown.text;
  EXPECT_EQ(shell(lab_command("down " + name_)).status, 0);
  EXPECT_EQ(shell(lab_command("down " + name_)).status, 0) << "twice is once";
  EXPECT_EQ(shell(lab_command("exec edge-0 --name " + name_ + " -- true")).status, 6);
  for (const char* wrong : {"", "sideways", "up --nodes 0", "up --node 3", "up --nodes", "up extra",
                            "up --name ../x", "up --link-rate fast", "down a b", "down ../x",
                            "exec edge-0", "status x", "down --all x"}) {
    const Outcome outcome = shell(lab_command(wrong));
    EXPECT_EQ(outcome.status, 4) << wrong << ": " << outcome.text;
    EXPECT_NE(outcome.text, "") << wrong;
  }
  EXPECT_NE(shell(lab_command("up --node 3")).text.find("did you mean --nodes?"),
            std::string::npos);
  EXPECT_EQ(shell(lab_command("--help")).status, 0);
}

TEST_F(LabSystem, WithoutRootNothingIsMadeAndThePersonIsToldWhatToDo) {
  const std::string as_nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups ";
  // The binary may lie where others cannot look.
  const std::string copy = "/tmp/mixproof-" + name_;
  ASSERT_EQ(shell(std::string("install -m 0755 ") + kMixproofBinary + " " + copy).status, 0);
  for (const std::string& words :
       {"up --name " + name_, "down " + name_, std::string("exec edge-0 -- true")}) {
    const Outcome outcome = shell(as_nobody + copy + " lab " + words);
    EXPECT_EQ(outcome.status, 4) << outcome.text;
    EXPECT_NE(outcome.text.find("run it with sudo"), std::string::npos) << outcome.text;
  }
  ::unlink(copy.c_str());
}

}  // namespace
}  // namespace mixproof
