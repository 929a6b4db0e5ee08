#include "harness/agent/worker.h"

#include <openssl/evp.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <deque>
#include <iostream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "harness/base/check.h"
#include "probes/probe.h"

namespace mixproof {
namespace {

std::string to_base64(const std::string& bytes) {
  std::string out(4 * ((bytes.size() + 2) / 3) + 1, '\0');
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                   reinterpret_cast<const unsigned char*>(bytes.data()),
                                   static_cast<int>(bytes.size()));
  out.resize(static_cast<std::size_t>(size));
  return out;
}

Result<std::string> from_base64(const std::string& text) {
  if (text.size() % 4 != 0) return Error{Code::kCorrupt, "blob is not base64"};
  std::string out(text.size() / 4 * 3, '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                   reinterpret_cast<const unsigned char*>(text.data()),
                                   static_cast<int>(text.size()));
  if (size < 0) return Error{Code::kCorrupt, "blob is not base64"};
  std::size_t padding = 0;  // the decoder counts the padding as bytes
  for (std::size_t i = text.size(); i > 0 && text[i - 1] == '='; --i) ++padding;
  out.resize(static_cast<std::size_t>(size) - padding);
  return out;
}

// One line at a time to the agent, from any thread.
class Output final : public RowSink {
 public:
  void row(const Json& row) override { line({{"row", row}}); }

  void line(const Json& message) {
    const std::string text = line_of(message) + "\n";
    const std::lock_guard lock(mutex_);
    std::string_view rest = text;
    while (!rest.empty()) {
      const ssize_t written = ::write(1, rest.data(), rest.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return;  // nobody reads: the end of input tells the probe to stop
      rest.remove_prefix(static_cast<std::size_t>(written));
    }
  }

 private:
  std::mutex mutex_;
};

// What the reading thread hands to the probe's.
struct Inbox {
  std::mutex mutex;
  std::condition_variable_any changed;
  std::optional<std::vector<PhaseSpan>> go;
  std::map<std::string, Json> gathers;
  std::stop_source stop;
};

class WorkerGroup final : public Group {
 public:
  WorkerGroup(Output& output, Inbox& inbox, int rank, int size)
      : output_(output), inbox_(inbox), rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }

  Result<std::vector<std::string>> all_gather(const std::string& name, const std::string& blob,
                                              std::chrono::milliseconds deadline) override {
    output_.line({{"gather", name}, {"blob", to_base64(blob)}});
    std::unique_lock lock(inbox_.mutex);
    const bool there = inbox_.changed.wait_for(lock, inbox_.stop.get_token(), deadline,
                                               [&] { return inbox_.gathers.count(name) != 0; });
    if (!there)
      return Error{Code::kTimeout, "gather '" + name + "': the other ranks did not answer in time"};
    const Json message = inbox_.gathers[name];
    if (const std::string absent = text_at(message, "absent"); !absent.empty())
      return Error{Code::kTimeout, "gather '" + name + "': absent: " + absent};
    std::vector<std::string> blobs;
    if (const Json* texts = member(message, "blobs"))
      for (const Json& text : *texts) {
        std::string one = TRY(from_base64(text.is_string() ? text.get<std::string>() : "="));
        blobs.push_back(std::move(one));
      }
    if (blobs.size() != static_cast<std::size_t>(size_))
      return Error{Code::kCorrupt, "gather '" + name + "': wrong count"};
    return blobs;
  }

 private:
  Output& output_;
  Inbox& inbox_;
  int rank_, size_;
};

std::vector<PhaseSpan> phases_of(const Json& json) {
  std::vector<PhaseSpan> out;
  if (const Json* phases = member(json, "phases"))
    for (const Json& phase : *phases)
      out.push_back(
          {text_at(phase, "name"), integer_at(phase, "begin_ns"), integer_at(phase, "end_ns")});
  return out;
}

void read_input(Inbox& inbox) {
  std::string line;
  while (std::getline(std::cin, line)) {
    const Result<Json> message = parse_json(line, "worker input");
    if (!message.ok()) break;
    const std::lock_guard lock(inbox.mutex);
    const std::string order = text_at(*message, "do");
    if (order == "go") inbox.go = phases_of(*message);
    if (order == "stop") inbox.stop.request_stop();
    if (const std::string name = text_at(*message, "gather"); !name.empty())
      inbox.gathers[name] = *message;
    inbox.changed.notify_all();
  }
  const std::lock_guard lock(inbox.mutex);
  inbox.stop.request_stop();
  inbox.changed.notify_all();
}

class ProbeRun {
 public:
  ProbeRun(Json spec, Output& output, Inbox& inbox)
      : spec_(std::move(spec)), output_(output), inbox_(inbox) {}

  // The probe's thread.
  bool run() {
    try {
      const Status status = steps();
      if (status.ok()) return true;
      fail(status.error());
    } catch (const std::exception& exception) {  // from libraries; ours never throw
      fail({Code::kInternal, exception.what()});
    } catch (...) {
      fail({Code::kInternal, "unknown exception"});
    }
    return false;
  }

 private:
  Status steps() {
    const ProbeSpec* found = nullptr;
    for (const ProbeSpec* one : all_probes())
      if (one->name == text_at(spec_, "probe")) found = one;
    if (found == nullptr)
      return Error{Code::kInvalid, "unknown probe '" + text_at(spec_, "probe") + "'"};
    const std::unique_ptr<Probe> probe = found->create();
    const Json* params = member(spec_, "params");
    TRY(read_params(params == nullptr ? Json::object() : *params, probe->params(), "/params"));
    WorkerGroup group(output_, inbox_, static_cast<int>(integer_at(spec_, "rank")),
                      static_cast<int>(integer_at(spec_, "ranks", 1)));
    ProbeContext context{
        .rows = output_, .group = found->ranks ? &group : nullptr, .stop = inbox_.stop.get_token()};
    context.worker = group.rank();
    context.workers = group.size();
    context.seed = static_cast<std::uint64_t>(integer_at(spec_, "seed"));
    context.name = text_at(spec_, "name");
    context.node = text_at(spec_, "node");
    context.address = text_at(spec_, "address");
    context.phases = phases_of(spec_);
    context.attempt = static_cast<int>(integer_at(spec_, "attempt"));
    context.steps_before = integer_at(spec_, "steps_before");
    context.info = Json::object();
    step_ = "prepare";
    TRY(probe->prepare(context));
    output_.line({{"ready", Json::object()}, {"info", context.info}});
    if (found->load && !wait_for_go(context)) return ok();  // stopped before it began
    step_ = "run";
    TRY(probe->run(context));
    step_ = "check";
    const Status checked = probe->check(context);
    output_.line(
        {{"done",
          {{"check", checked.ok() ? Json{{"ok", true}} : error_to_json(checked.error())}}}});
    return ok();
  }

  bool wait_for_go(ProbeContext& context) {
    std::unique_lock lock(inbox_.mutex);
    inbox_.changed.wait(lock, inbox_.stop.get_token(), [&] { return inbox_.go.has_value(); });
    if (!inbox_.go) {
      output_.line({{"done", {{"check", {{"ok", true}}}, {"unused", true}}}});
      return false;
    }
    context.phases = *inbox_.go;
    return true;
  }

  void fail(const Error& error) {
    Json failed = error_to_json(error);
    failed["step"] = step_;
    output_.line({{"failed", failed}});
  }

  Json spec_;
  Output& output_;
  Inbox& inbox_;
  std::string step_ = "start";
};

}  // namespace

int worker_main() {
  std::ios::sync_with_stdio(false);
  std::string line;
  if (!std::getline(std::cin, line)) return 1;
  Output output;
  const Result<Json> message = parse_json(line, "worker spec");
  const Json* spec = message.ok() ? member(*message, "worker") : nullptr;
  if (spec == nullptr) {
    output.line(
        {{"failed", {{"code", "invalid"}, {"message", "no worker spec"}, {"step", "start"}}}});
    return 1;
  }
  Inbox inbox;
  // Detached in effect: it may sit in a read for ever, and the process leaves by _exit below.
  std::thread reader([&inbox] { read_input(inbox); });
  const bool good = ProbeRun(*spec, output, inbox).run();
  std::fflush(stderr);
  ::_exit(good ? 0 : 1);
}

}  // namespace mixproof
