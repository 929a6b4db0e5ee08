#include "harness/base/epoll_world.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>

#include "harness/base/cgroup.h"
#include "harness/base/line_pipe.h"
#include "harness/base/reactor.h"
#include "harness/base/spawn.h"

namespace mixproof {
namespace {

// How long a dead child's output may stay open (a grandchild holds it) before we stop reading it.
constexpr Time kOutputGrace = std::chrono::milliseconds(200);

// The part of a child that outlives its Child object: it waits for the exit and forgets itself.
class ChildState : public std::enable_shared_from_this<ChildState> {
 public:
  ChildState(Reactor& reactor, Spawned spawned, ChildEvents events, ProcessId id)
      : reactor_(reactor), spawned_(std::move(spawned)), events_(std::move(events)), id_(id) {}

  Status start() {
    if (spawned_.output) {
      writer_ = std::make_unique<LineWriter>(reactor_, std::move(spawned_.input));
      reader_ = std::make_unique<LineReader>(
          reactor_, std::move(spawned_.output),
          [this](std::string_view line) {
            if (events_.on_line) events_.on_line(line);
          },
          [this] {
            output_ended_ = true;
            tell_exit();
          });
      TRY(reader_->start());
    } else {
      output_ended_ = true;
    }
    return reactor_.watch(spawned_.pidfd.get(), EPOLLIN,
                          [self = shared_from_this()](std::uint32_t) { self->reap(); });
  }

  void forget() {
    events_ = {};
    writer_.reset();
  }
  LineWriter* writer() { return writer_.get(); }
  void kill(int signal) {
    if (!reaped_) ::syscall(SYS_pidfd_send_signal, spawned_.pidfd.get(), signal, nullptr, 0);
  }
  ProcessId id() const { return id_; }

 private:
  void reap() {
    int status = 0;
    if (::waitpid(spawned_.pid, &status, WNOHANG) != spawned_.pid) return;
    const auto self = shared_from_this();
    reaped_ = true;
    wait_status_ = status;
    reactor_.forget(spawned_.pidfd.get());
    if (!output_ended_)
      reactor_.at(Clock::kMonotonic, read_clock(CLOCK_MONOTONIC) + kOutputGrace,
                  [self] { self->reader_->finish(); });
    tell_exit();
  }

  void tell_exit() {
    if (!reaped_ || !output_ended_) return;
    const auto tell = std::move(events_.on_exit);
    events_.on_exit = nullptr;
    if (tell) tell(wait_status_);
  }

  Reactor& reactor_;
  Spawned spawned_;
  ChildEvents events_;
  ProcessId id_;
  std::unique_ptr<LineWriter> writer_;
  std::unique_ptr<LineReader> reader_;
  bool output_ended_ = false, reaped_ = false;
  int wait_status_ = 0;
};

class RealChild final : public Child {
 public:
  explicit RealChild(std::shared_ptr<ChildState> state) : state_(std::move(state)) {}
  ~RealChild() override { state_->forget(); }
  Status send(std::string_view line) override {
    if (state_->writer() == nullptr) return Error{Code::kPeerLost, "the process takes no lines"};
    return state_->writer()->send(line);
  }
  void close_input() override {
    if (state_->writer() != nullptr) state_->writer()->close_after_sending();
  }
  void kill(int signal) override { state_->kill(signal); }
  ProcessId id() const override { return state_->id(); }

 private:
  std::shared_ptr<ChildState> state_;
};

class EpollWorld final : public RealWorld {
 public:
  explicit EpollWorld(std::unique_ptr<Reactor> reactor)
      : reactor_(std::move(reactor)), files_(make_real_files()), host_(make_real_host_view()) {}

  ~EpollWorld() override {
    if (parent_writer_) parent_writer_->flush(500);
  }

  Status block_signals() {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, signal);
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
    signals_ = UniqueFd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals_) return system_error("signalfd");
    return reactor_->watch(signals_.get(), EPOLLIN, [this](std::uint32_t) { read_signals(); });
  }

  Time now(Clock clock) override {
    return read_clock(clock == Clock::kUtc        ? CLOCK_REALTIME
                      : clock == Clock::kBoottime ? CLOCK_BOOTTIME
                                                  : CLOCK_MONOTONIC);
  }

  std::string boot_id() override {
    const Result<std::string> text = files_->read("/proc/sys/kernel/random/boot_id");
    return text.ok() ? text->substr(0, text->find('\n')) : std::string();
  }

  std::uint64_t random() override {
    std::uint64_t value = 0;
    while (::getrandom(&value, sizeof value, 0) != static_cast<ssize_t>(sizeof value)) {
    }
    return value;
  }

  ProcessId self() override {
    const Result<ProcessId> id = host_->identify(::getpid());
    return id.ok() ? *id : ProcessId{::getpid(), 0};
  }

  TimerId at(Clock clock, Time when, std::function<void()> task) override {
    return reactor_->at(clock, when, std::move(task));
  }
  void cancel(TimerId timer) override { reactor_->cancel(timer); }

  Result<std::unique_ptr<Child>> spawn(const ChildSpec& spec, ChildEvents events) override {
    Spawned spawned = TRY(spawn_process(spec));
    const Result<ProcessId> id =
        host_->identify(spawned.pid);  // a child that has already ended has no identity left
    const ProcessId identity = id.ok() ? *id : ProcessId{spawned.pid, 0};
    auto state =
        std::make_shared<ChildState>(*reactor_, std::move(spawned), std::move(events), identity);
    TRY(state->start());
    return std::unique_ptr<Child>(std::make_unique<RealChild>(state));
  }

  void listen(ParentEvents events) override {
    parent_ = std::move(events);
    if (!parent_.on_line && !parent_.on_end) return;
    UniqueFd input(::fcntl(0, F_DUPFD_CLOEXEC, 3));
    if (!input) {
      reactor_->at(Clock::kMonotonic, Time(0), [this] { parent_.on_end(); });
      return;
    }
    parent_reader_ = std::make_unique<LineReader>(
        *reactor_, std::move(input), [this](std::string_view line) { parent_.on_line(line); },
        [this] { parent_.on_end(); });
    // A regular file as stdin cannot be watched; it has no live parent behind it either.
    if (!parent_reader_->start().ok())
      reactor_->at(Clock::kMonotonic, Time(0), [this] { parent_reader_->finish(); });
  }

  Status tell_parent(std::string_view line) override {
    if (!parent_writer_) {
      UniqueFd output(::fcntl(1, F_DUPFD_CLOEXEC, 3));
      if (!output) return Error{Code::kPeerLost, "no stdout"};
      parent_writer_ = std::make_unique<LineWriter>(*reactor_, std::move(output));
    }
    return parent_writer_->send(line);
  }

  Status signal(const ProcessId& process, int signal) override {
    // The pidfd is opened first and the identity checked after, so that the number cannot change
    // hands in between.
    const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
    if (!pidfd)
      return Error{Code::kUnavailable, "process " + std::to_string(process.pid) + " is gone"};
    const ProcessId now = TRY(host_->identify(process.pid));
    if (now != process)
      return Error{Code::kUnavailable,
                   "process " + std::to_string(process.pid) + " has been replaced"};
    if (::syscall(SYS_pidfd_send_signal, pidfd.get(), signal, nullptr, 0) != 0)
      return system_error("signal process " + std::to_string(process.pid));
    return ok();
  }

  Status clear_cgroup(const std::string& cgroup) override {
    TRY(cgroup_kill(cgroup, std::chrono::milliseconds(1500)));
    return cgroup_remove(cgroup);
  }

  void drop_cgroup(const std::string& cgroup) override { cgroup_drop_empty(cgroup); }

  Files& files() override { return *files_; }
  const HostView& host() override { return *host_; }

  void run_until(const std::function<bool()>& done) override {
    while (!done()) reactor_->turn();
  }

 private:
  void read_signals() {
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info))
      if (parent_.on_signal) parent_.on_signal(static_cast<int>(info.ssi_signo));
  }

  std::unique_ptr<Reactor> reactor_;
  std::unique_ptr<Files> files_;
  std::unique_ptr<HostView> host_;
  UniqueFd signals_;
  ParentEvents parent_;
  std::unique_ptr<LineReader> parent_reader_;
  std::unique_ptr<LineWriter> parent_writer_;
};

}  // namespace

Result<std::unique_ptr<RealWorld>> make_epoll_world() {
  std::unique_ptr<Reactor> reactor = TRY(Reactor::create());
  auto world = std::make_unique<EpollWorld>(std::move(reactor));
  TRY(world->block_signals());
  return std::unique_ptr<RealWorld>(std::move(world));
}

}  // namespace mixproof
