// Reading of trace files.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "harness/base/json.h"
#include "harness/base/text.h"
#include "probes/inference/trace.h"

namespace mixproof::inference {
namespace {

constexpr double kMostTokens = 1e9;
constexpr double kMostSeconds = 4e9;  // beyond 2096 as seconds since 1970

// One line as its format says it; the time from an origin of the format.
struct Line {
  std::int64_t at_ns = 0;
  double prompt_tokens = 0, answer_tokens = 0;
};

Error invalid(const std::string& what) { return {Code::kInvalid, what}; }

std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    return std::nullopt;
  return value;
}

// Digits only, so many.
std::optional<std::int64_t> digits_of(std::string_view text, std::size_t from, std::size_t count) {
  if (from + count > text.size()) return std::nullopt;
  std::int64_t value = 0;
  for (const char c : text.substr(from, count)) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  return value;
}

// Days since 1970-01-01 (Howard Hinnant, "chrono-compatible low-level date algorithms").
std::int64_t days_of(std::int64_t year, std::int64_t month, std::int64_t day) {
  year -= month <= 2 ? 1 : 0;
  const std::int64_t era = year / 400, of_era = year - era * 400;
  const std::int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

// Minutes east of UTC of "", "Z" or "+hh:mm".
std::optional<std::int64_t> zone_of(std::string_view text) {
  if (text.empty() || text == "Z") return 0;
  if (text.size() != 6 || (text[0] != '+' && text[0] != '-') || text[3] != ':') return std::nullopt;
  const auto hours = digits_of(text, 1, 2), minutes = digits_of(text, 4, 2);
  if (!hours || !minutes || *hours > 14 || *minutes > 59) return std::nullopt;
  return (text[0] == '-' ? -1 : 1) * (*hours * 60 + *minutes);
}

// "2023-11-16 18:17:03.9799600", with up to nine digits of a fraction, and a zone.
std::optional<std::int64_t> timestamp_of(std::string_view text) {
  const auto year = digits_of(text, 0, 4), month = digits_of(text, 5, 2),
             day = digits_of(text, 8, 2), hour = digits_of(text, 11, 2),
             minute = digits_of(text, 14, 2), second = digits_of(text, 17, 2);
  if (!year || !month || !day || !hour || !minute || !second) return std::nullopt;
  if (text[4] != '-' || text[7] != '-' || (text[10] != ' ' && text[10] != 'T') || text[13] != ':' ||
      text[16] != ':')
    return std::nullopt;
  if (*year < 1970 || *year > 2200 || *month < 1 || *month > 12 || *day < 1 || *day > 31 ||
      *hour > 23 || *minute > 59 || *second > 60)
    return std::nullopt;
  std::size_t at = 19;
  std::int64_t fraction = 0;
  if (at < text.size() && text[at] == '.') {
    std::size_t count = 0;
    while (at + 1 + count < text.size() && text[at + 1 + count] >= '0' &&
           text[at + 1 + count] <= '9')
      ++count;
    if (count == 0 || count > 9) return std::nullopt;
    fraction = *digits_of(text, at + 1, count);
    for (std::size_t i = count; i < 9; ++i) fraction *= 10;
    at += 1 + count;
  }
  const auto zone = zone_of(text.substr(at));
  if (!zone) return std::nullopt;
  const std::int64_t minutes = (days_of(*year, *month, *day) * 24 + *hour) * 60 + *minute - *zone;
  return (minutes * 60 + *second) * 1'000'000'000 + fraction;
}

// Reads one line after another of one format.
class LineReader {
 public:
  explicit LineReader(std::string format) : format_(std::move(format)) {}

  bool has_header() const { return format_ == "azure" || format_ == "burstgpt"; }

  Status header(std::string_view line) {
    columns_ = split(line, ',');
    for (const auto& [name, place] :
         {std::pair{time_name(), &time_}, {prompt_name(), &prompt_}, {answer_name(), &answer_}}) {
      const auto found = std::find(columns_.begin(), columns_.end(), name);
      if (found == columns_.end()) return invalid("no column \"" + name + "\"");
      *place = static_cast<std::size_t>(found - columns_.begin());
    }
    return ok();
  }

  Result<Line> read(std::string_view line) const {
    return has_header() ? read_csv(line) : read_json(line);
  }

 private:
  std::string time_name() const {
    return format_ == "azure"      ? "TIMESTAMP"
           : format_ == "burstgpt" ? "Timestamp"
           : format_ == "mooncake" ? "timestamp"
                                   : "at_s";
  }
  std::string prompt_name() const {
    return format_ == "azure"      ? "ContextTokens"
           : format_ == "burstgpt" ? "Request tokens"
           : format_ == "mooncake" ? "input_length"
                                   : "prompt_tokens";
  }
  std::string answer_name() const {
    return format_ == "azure"      ? "GeneratedTokens"
           : format_ == "burstgpt" ? "Response tokens"
           : format_ == "mooncake" ? "output_length"
                                   : "answer_tokens";
  }

  static Result<std::int64_t> nanoseconds(double seconds) {
    if (!(seconds >= 0 && seconds <= kMostSeconds))
      return invalid("a time that is negative or too large");
    return static_cast<std::int64_t>(std::llround(seconds * 1e9));
  }

  Result<Line> read_csv(std::string_view line) const {
    const std::vector<std::string> cells = split(line, ',');
    if (cells.size() != columns_.size())
      return invalid(format("%zu columns, the header has %zu", cells.size(), columns_.size()));
    Line out;
    if (format_ == "azure") {
      const auto at = timestamp_of(cells[time_]);
      if (!at) return invalid("\"" + cells[time_] + "\" is not a time");
      out.at_ns = *at;
    } else {
      const auto seconds = number_of(cells[time_]);
      if (!seconds) return invalid("\"" + cells[time_] + "\" is not a time");
      out.at_ns = TRY(nanoseconds(*seconds));
    }
    for (const auto& [place, target] :
         {std::pair{prompt_, &out.prompt_tokens}, {answer_, &out.answer_tokens}}) {
      const auto tokens = number_of(cells[place]);
      if (!tokens) return invalid("\"" + cells[place] + "\" is not a number of tokens");
      *target = *tokens;
    }
    return out;
  }

  Result<Line> read_json(std::string_view line) const {
    const Json json = TRY(parse_json(line, "line"));
    for (const std::string& name : {time_name(), prompt_name(), answer_name()})
      if (const Json* found = member(json, name); found == nullptr || !found->is_number())
        return invalid("\"" + name + "\" is missing or not a number");
    const double unit_s = format_ == "mooncake" ? 1e-3 : 1;
    Line out{.prompt_tokens = number_at(json, prompt_name()),
             .answer_tokens = number_at(json, answer_name())};
    out.at_ns = TRY(nanoseconds(number_at(json, time_name()) * unit_s));
    return out;
  }

  std::string format_;
  std::vector<std::string> columns_;
  std::size_t time_ = 0, prompt_ = 0, answer_ = 0;
};

std::string detect(std::string_view first_line) {
  if (starts_with(first_line, "TIMESTAMP,")) return "azure";
  if (first_line.find("Timestamp") != std::string_view::npos &&
      first_line.find("Request tokens") != std::string_view::npos)
    return "burstgpt";
  if (first_line.find("\"input_length\"") != std::string_view::npos) return "mooncake";
  if (first_line.find("\"at_s\"") != std::string_view::npos) return "jsonl";
  return "";
}

Result<TraceRequest> request_of(const Line& line, std::int64_t origin_ns) {
  for (const double tokens : {line.prompt_tokens, line.answer_tokens})
    if (!(tokens >= 0 && tokens <= kMostTokens) || tokens != std::floor(tokens))
      return invalid("a number of tokens that is negative, too large or not whole");
  return TraceRequest{line.at_ns - origin_ns,
                      {static_cast<std::uint32_t>(line.prompt_tokens),
                       std::max<std::uint32_t>(1, static_cast<std::uint32_t>(line.answer_tokens))}};
}

}  // namespace

Result<TraceFile> parse_trace(std::string_view bytes, const std::string& format_name,
                              const std::string& name) {
  TraceFile out;
  std::optional<LineReader> reader;
  std::optional<std::int64_t> origin_ns;
  std::int64_t number = 0;
  while (!bytes.empty()) {
    const std::string place = name + ":" + std::to_string(++number);
    const std::size_t end = bytes.find('\n');
    if (end == std::string_view::npos)
      return invalid(place + ": the line does not end: the file is cut short");
    std::string_view line = bytes.substr(0, end);
    bytes.remove_prefix(end + 1);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.empty()) return invalid(place + ": an empty line");
    if (!reader) {
      out.format = format_name == "auto" ? detect(line) : format_name;
      if (out.format.empty())
        return invalid(place + ": neither azure, burstgpt, mooncake nor jsonl");
      reader.emplace(out.format);
      if (reader->has_header()) {
        if (Status status = reader->header(line); !status)
          return std::move(status).error().in(place);
        continue;
      }
    }
    const Result<Line> parsed = reader->read(line);
    if (!parsed) return Error(parsed.error()).in(place);
    if (!origin_ns) origin_ns = parsed->at_ns;
    Result<TraceRequest> request = request_of(*parsed, *origin_ns);
    if (!request) return std::move(request).error().in(place);
    if (!out.requests.empty() && request->at_ns < out.requests.back().at_ns)
      return invalid(place + ": earlier than the line before");
    out.requests.push_back(*request);
  }
  if (out.requests.empty()) return invalid(name + ": holds no request");
  return out;
}

}  // namespace mixproof::inference
