#include "probes/inference/trace.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "harness/base/text.h"

namespace mixproof::inference {
namespace {

constexpr std::size_t kMostRequests = 10'000'000;
constexpr std::int64_t kNsPerS = 1'000'000'000;

Error invalid(const std::string& what) { return {Code::kInvalid, "trace: " + what}; }

Result<std::string> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return system_error("open " + path);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  if (file.bad() || bytes.bad()) return system_error("read " + path);
  return std::move(bytes).str();
}

// The part of the file that is replayed, from 0, on the run's time axis.
Status clip(const TraceOptions& options, Trace& trace) {
  std::vector<TraceRequest>& requests = trace.requests;
  const std::int64_t from = std::llround(options.from_s * 1e9);
  const std::int64_t until =
      options.until_s > 0 ? std::llround(options.until_s * 1e9) : requests.back().at_ns + 1;
  if (until <= from)
    return invalid("until_s does not lie behind from_s, or the trace ends before it");
  std::erase_if(requests, [&](const TraceRequest& request) {
    return request.at_ns < from || request.at_ns >= until;
  });
  if (requests.empty()) return invalid("no request between from_s and until_s");
  std::int64_t span = until - from;
  if (options.until_s <= 0) {
    const std::int64_t last = requests.back().at_ns - from;
    span = last +
           std::max<std::int64_t>(1, last / std::max<std::int64_t>(1, std::ssize(requests) - 1));
  }
  const auto scaled = [&](std::int64_t ns) {
    return static_cast<std::int64_t>(std::llround(static_cast<double>(ns) / options.time_scale));
  };
  for (TraceRequest& request : requests) request.at_ns = scaled(request.at_ns - from);
  trace.period_ns = std::max(scaled(span), requests.back().at_ns + 1);
  return ok();
}

// A copy with a share of the requests, shifted round the trace.
void add_copy(const std::vector<TraceRequest>& from, double share, std::int64_t shift,
              std::int64_t period, Random random, std::vector<TraceRequest>& to) {
  for (const TraceRequest& request : from) {
    if (share < 1 && random.unit() >= share) continue;
    to.push_back(request);
    to.back().at_ns = (request.at_ns + shift) % period;
  }
}

Status scale_rate(const TraceOptions& options, std::uint64_t seed, Trace& trace) {
  if (options.rate_scale == 1) return ok();
  if (static_cast<double>(trace.requests.size()) * options.rate_scale >
      static_cast<double>(kMostRequests))
    return invalid(format("more than %zu requests", kMostRequests));
  std::vector<TraceRequest> out;
  double left = options.rate_scale;
  for (int copy = 0; left > 0; ++copy, left -= 1) {
    const std::string name = "trace copy " + std::to_string(copy);
    Random places(seed, "shift/" + name);
    const auto shift = static_cast<std::int64_t>(
        copy == 0 ? 0 : places.below(static_cast<std::uint64_t>(trace.period_ns)));
    add_copy(trace.requests, std::min(left, 1.0), shift, trace.period_ns,
             Random(seed, "thin/" + name), out);
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const TraceRequest& a, const TraceRequest& b) { return a.at_ns < b.at_ns; });
  if (out.empty()) return invalid("rate_scale leaves no request");
  trace.requests = std::move(out);
  return ok();
}

void shorten(const TraceOptions& options, Trace& trace) {
  const auto prompt = static_cast<std::uint32_t>(options.max_prompt_tokens),
             answer = static_cast<std::uint32_t>(options.max_answer_tokens);
  for (TraceRequest& request : trace.requests) {
    RequestLengths& lengths = request.lengths;
    if (lengths.prompt_words <= prompt && lengths.answer_tokens <= answer) continue;
    ++trace.shortened;
    lengths.prompt_words = std::min(lengths.prompt_words, prompt);
    lengths.answer_tokens = std::min(lengths.answer_tokens, answer);
  }
}

// What the load declared as its cost must hold.
Status check_peak(const TraceOptions& options, const Trace& trace) {
  const std::vector<TraceRequest>& requests = trace.requests;
  std::size_t first = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    while (requests[i].at_ns - requests[first].at_ns >= kNsPerS) ++first;
    if (static_cast<double>(i - first + 1) > options.peak_per_s)
      return invalid(format("%zu requests in the second from %.3f s on are more than peak_per_s",
                            i - first + 1, 1e-9 * static_cast<double>(requests[first].at_ns)));
  }
  return ok();
}

}  // namespace

Result<Trace> scale_trace(TraceFile file, const TraceOptions& options, std::uint64_t seed) {
  if (!(options.time_scale > 0 && options.rate_scale > 0))
    return invalid("time_scale and rate_scale must be positive");
  Trace out;
  out.format = std::move(file.format);
  out.requests = std::move(file.requests);
  out.in_file = std::ssize(out.requests);
  if (out.requests.empty()) return invalid("holds no request");
  TRY(clip(options, out));
  TRY(scale_rate(options, seed, out));
  shorten(options, out);
  TRY(check_peak(options, out));
  return out;
}

Result<Trace> load_trace(const TraceOptions& options, std::uint64_t seed) {
  const std::string bytes = TRY(read_file(options.path));
  TraceFile file = TRY(parse_trace(bytes, options.format, options.path));
  Trace out = TRY(scale_trace(std::move(file), options, seed));
  out.sha256 = sha256_hex(bytes);
  return out;
}

}  // namespace mixproof::inference
