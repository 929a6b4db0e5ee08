#include "tests/e2e/command.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <thread>

#include "harness/base/text.h"
#include "reports/recording.h"
#include "tests/fake/paths.h"

namespace mixproof {
namespace {

namespace fs = std::filesystem;

constexpr Seconds kClearUp{40};
constexpr std::chrono::milliseconds kPoll{10};

std::string text_of_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string link_of(const std::string& path) {
  std::error_code ignored;
  return fs::read_symlink(path, ignored).string();
}

std::vector<std::string> words_of_process(int pid) {
  std::vector<std::string> words = split(text_of_file(format("/proc/%d/cmdline", pid)), '\0');
  return words;
}

std::vector<int> all_processes() {
  std::vector<int> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    if (std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c) != 0; }))
      out.push_back(std::stoi(name));
  }
  return out;
}

// Only async-signal-safe calls between fork and exec.
[[noreturn]] void become(char** argv, char** environment, const char* directory, int out, int err,
                         pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // a test that is killed takes its run along
  const int input = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (::getppid() != parent || input < 0 || ::chdir(directory) != 0 || ::dup2(input, 0) < 0 ||
      ::dup2(out, 1) < 0 || ::dup2(err, 2) < 0)
    ::_exit(126);
  ::execvpe(argv[0], argv, environment);
  ::_exit(127);
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (std::string& string : strings) out.push_back(string.data());
  out.push_back(nullptr);
  return out;
}

// Once a process: from here on /run/mixproof is a file system of this test's own.
bool isolate() {
  static const bool done = [] {
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
      return false;
    std::error_code ignored;
    fs::create_directories("/run/mixproof", ignored);
    return ::mount("mixproof-e2e", "/run/mixproof", "tmpfs", 0, "mode=755") == 0;
  }();
  return done;
}

}  // namespace

Command::Command(const std::vector<std::string>& args, const CommandOptions& options) {
  static int number = 0;
  const std::string stem = options.directory + "/command-" + std::to_string(number++);
  out_path_ = stem + ".out";
  err_path_ = stem + ".err";
  const int out = ::open(out_path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  const int err = ::open(err_path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  std::vector<std::string> words = options.before, variables = options.environment;
  words.push_back(options.program);
  words.insert(words.end(), args.begin(), args.end());
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string name = std::string(*entry).substr(0, std::string(*entry).find('=') + 1);
    if (std::none_of(options.environment.begin(), options.environment.end(),
                     [&](const std::string& added) { return starts_with(added, name); }))
      variables.emplace_back(*entry);
  }
  std::vector<char*> argv = pointers(words), environment = pointers(variables);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0)
    become(argv.data(), environment.data(), options.directory.c_str(), out, err, parent);
  if (pid_ > 0) ::setpgid(pid_, pid_);  // here as well: the group must be there when we are back
  ::close(out);
  ::close(err);
  running_ = pid_ > 0;
}

Command::~Command() {
  if (!running_) return;
  signal(SIGCONT);
  signal(SIGTERM);
  if (reap(kClearUp)) return;
  signal(SIGKILL);
  reap(kClearUp);
}

void Command::signal(int number) const {
  if (running_) ::kill(pid_, number);
}

void Command::signal_group(int number) const {
  if (running_) ::kill(-pid_, number);
}

std::string Command::err() const { return text_of_file(err_path_); }

bool Command::reap(Seconds deadline) {
  return eventually(
      [this] {
        if (running_ && ::waitpid(pid_, &wait_status_, WNOHANG) == pid_) running_ = false;
        return !running_;
      },
      deadline);
}

bool Command::wait_for(const std::string& text, Seconds deadline) {
  bool found = false;
  eventually(
      [&] {
        const bool ended =
            reap(Seconds(0));  // before the look: what it said last is in the file by then
        found = err().find(text) != std::string::npos;
        return found || ended;
      },
      deadline);
  return found;
}

Ended Command::wait(Seconds deadline) {
  Ended ended;
  ended.in_time = reap(deadline);
  if (!ended.in_time) {
    signal(SIGKILL);
    reap(kClearUp);
  }
  ended.status = WIFEXITED(wait_status_) ? WEXITSTATUS(wait_status_) : 128 + WTERMSIG(wait_status_);
  ended.out = text_of_file(out_path_);
  ended.err = err();
  return ended;
}

void EndToEnd::SetUp() {
  std::string pattern = fs::temp_directory_path().string() + "/mixproof-e2e-XXXXXX";
  ASSERT_NE(::mkdtemp(pattern.data()), nullptr) << std::strerror(errno);
  directory_ = pattern;
  ASSERT_EQ(::chmod(directory_.c_str(), 0777), 0);  // tests that are not root write there too
}

void EndToEnd::TearDown() {
  std::error_code ignored;
  if (HasFailure())
    for (const auto& entry : fs::directory_iterator(directory_, ignored))
      if (entry.path().extension() == ".err")
        std::printf("--- %s\n%s", entry.path().filename().c_str(),
                    text_of_file(entry.path()).c_str());
  fs::remove_all(directory_, ignored);
}

std::unique_ptr<Command> EndToEnd::start(const std::vector<std::string>& args,
                                         CommandOptions options) {
  if (options.directory.empty()) options.directory = directory_;
  return std::make_unique<Command>(args, options);
}

Ended EndToEnd::run(const std::vector<std::string>& args, CommandOptions options,
                    Seconds deadline) {
  Ended ended = start(args, std::move(options))->wait(deadline);
  EXPECT_TRUE(ended.in_time) << "no end in " << deadline.count() << " s: " << join(args, " ");
  return ended;
}

std::string EndToEnd::write(const std::string& name, const std::string& text) const {
  std::ofstream(path(name)) << text;
  return path(name);
}

bool EndToEnd::exists(const std::string& name) const {
  std::error_code ignored;
  return fs::exists(path(name), ignored);
}

std::string EndToEnd::suite(const std::string& name) {
  return std::string(kSourceDir) + "/tests/e2e/suites/" + name + ".json";
}

std::string EndToEnd::shortened(const std::string& name, double measure_s,
                                double around_fault_s) const {
  Json suite = json_file(std::string(kSourceDir) + "/suites/" + name + ".json");
  for (Json& phase : suite["phases"]) {
    double length = measure_s;
    if (phase.contains("faults"))
      for (Json& fault : phase["faults"]) {
        fault["at_s"] = std::min(number_at(fault, "at_s"), around_fault_s);
        length = std::max(
            length, number_at(fault, "at_s") + number_at(fault, "for_s") + 2 * around_fault_s);
      }
    phase["measure_s"] = length;
    if (phase.contains("settle_s")) phase["settle_s"] = 1;
  }
  // As many checkpoints in a phase, however slow this machine is.
  for (Json& load : suite["loads"])
    if (load.contains("params") && load["params"].contains("checkpoint_every_steps"))
      load["params"]["checkpoint_every_steps"] = 15;
  return write(name + format("-%g.json", measure_s), suite.dump(1));
}

Json EndToEnd::json_file(const std::string& name) const {
  const std::string text = text_of_file(name.front() == '/' ? name : path(name));
  Json out = Json::parse(text, nullptr, false);
  EXPECT_FALSE(out.is_discarded()) << name << " is no JSON: " << text.substr(0, 200);
  return out;
}

std::string EndToEnd::breaks(const std::string& kind, const std::string& file) {
  constexpr const char* kValidate =
      "import json, sys, jsonschema\n"
      "schema, document = (json.load(open(name)) for name in sys.argv[1:])\n"
      "jsonschema.Draft7Validator.check_schema(schema)\n"
      "for error in jsonschema.Draft7Validator(schema).iter_errors(document):\n"
      "    print('/' + '/'.join(map(str, error.absolute_path)), error.message)\n";
  const Ended schema = run({"schema", kind});
  const std::string schema_path = write("schema-" + kind + ".json", schema.out);
  CommandOptions python;
  python.program = "/usr/bin/python3";  // Debian's, which has jsonschema
  const Ended ended =
      run({"-c", kValidate, schema_path, file.front() == '/' ? file : path(file)}, python);
  return ended.status == 0 ? ended.out : ended.err;
}

std::vector<Json> EndToEnd::recorded(const std::string& run_directory) const {
  const Result<RecordingRows> rows = read_recording(path(run_directory) + "/" + kRecordingFile);
  EXPECT_TRUE(rows.ok()) << (rows.ok() ? "" : rows.error().message);
  return rows.ok() ? rows->rows : std::vector<Json>();
}

void LabRun::SetUp() {
  if (::geteuid() != 0)
    GTEST_SKIP() << "needs root: a lab is made of namespaces, mounts and cgroups";
  ASSERT_TRUE(isolate()) << "a mount namespace of this test's own: " << std::strerror(errno);
  EndToEnd::SetUp();
  ASSERT_EQ(join(left_behind(), "\n"), "") << "before the test";
}

void LabRun::TearDown() {
  if (directory_.empty()) return;
  // What ends by itself (an agent whose controller was killed) has a moment for it.
  eventually([] { return left_behind().empty(); }, Seconds(5));
  EXPECT_EQ(join(left_behind(), "\n"), "") << "left behind";
  const Result<std::vector<Lab>> all = labs();
  if (all.ok()) {
    for (const Lab& lab : *all) {
      EXPECT_TRUE(lab_down(lab.name).ok()) << lab.name;
    }
  }
  EndToEnd::TearDown();
}

std::unique_ptr<Command> LabRun::start_run(std::vector<std::string> args, CommandOptions options) {
  args.insert(args.begin(), "run");
  return start(args, std::move(options));
}

std::vector<std::string> LabRun::left_behind() {
  std::vector<std::string> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/run/mixproof/labs", error)) {
    Lab lab;
    lab.name = entry.path().filename().string();
    lab.dir = entry.path().string();
    if (!entry.is_directory()) continue;
    for (const std::string& thing : lab_leftovers(lab)) out.push_back(lab.name + ": " + thing);
  }
  const std::string ours = link_of("/proc/self/ns/mnt");
  for (const int pid : all_processes())
    if (pid != ::getpid() && link_of(format("/proc/%d/ns/mnt", pid)) == ours &&
        state_of_process(pid) != 'Z')
      out.push_back("process " + std::to_string(pid) + ": " + join(words_of_process(pid), " "));
  return out;
}

std::vector<int> processes_in(const std::string& lab, const std::string& node,
                              const std::string& word) {
  std::vector<int> out;
  const Result<std::vector<Lab>> all = labs();
  if (!all.ok()) return out;
  std::string inside;
  for (const Lab& one : *all)
    for (const LabNode& each : one.nodes)
      if (one.name == lab && each.name == node && each.init_pid > 0)
        inside = link_of(format("/proc/%d/ns/pid", each.init_pid));
  if (inside.empty()) return out;
  for (const int pid : all_processes()) {
    if (link_of(format("/proc/%d/ns/pid", pid)) != inside) continue;
    const std::vector<std::string> words = words_of_process(pid);
    const bool is_program = fs::path(words[0]).filename() == word;
    if (is_program || (words.size() > 1 && words[1] == word)) out.push_back(pid);
  }
  return out;
}

int process_in(const std::string& lab, const std::string& node, const std::string& word,
               Seconds deadline) {
  std::vector<int> found;
  eventually(
      [&] {
        found = processes_in(lab, node, word);
        return !found.empty();
      },
      deadline);
  return found.empty() ? 0 : found.front();
}

char state_of_process(int pid) {
  const std::string stat = text_of_file(format("/proc/%d/stat", pid));
  const std::size_t end = stat.rfind(") ");
  return end == std::string::npos ? '\0' : stat[end + 2];
}

bool eventually(const std::function<bool()>& holds, Seconds deadline) {
  const auto until = std::chrono::steady_clock::now() + deadline;
  while (true) {
    if (holds()) return true;
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(kPoll);
  }
}

}  // namespace mixproof
