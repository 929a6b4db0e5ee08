#include "probes/signal/prometheus_text.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "harness/base/text.h"

namespace mixproof::signal {
namespace {

bool is_name_start(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_' || c == ':';
}
bool is_name_part(char c) {
  return is_name_start(c) || std::isdigit(static_cast<unsigned char>(c)) != 0;
}

// As Go's ParseFloat, which the format refers to, except for hexadecimal.
std::optional<double> number_of(std::string_view word) {
  if (!word.empty() && word.front() == '+') {
    word.remove_prefix(1);
    if (!word.empty() && word.front() == '-') return std::nullopt;
  }
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (word.empty() || end != word.data() + word.size()) return std::nullopt;
  if (error == std::errc::result_out_of_range)  // beyond a double, or too near to zero for one
    return std::strtod(std::string(word).c_str(), nullptr);
  if (error != std::errc()) return std::nullopt;
  return value;
}

class Line {
 public:
  explicit Line(std::string_view text) : rest_(text) { blanks(); }

  bool empty() const { return rest_.empty(); }
  bool is_comment() const { return !rest_.empty() && rest_.front() == '#'; }

  std::string_view name() {
    std::size_t length = 0;
    if (!rest_.empty() && is_name_start(rest_.front()))
      while (length < rest_.size() && is_name_part(rest_[length])) ++length;
    return take(length);
  }

  // False when what stands here is not a set of labels. Nothing in braces is an empty one.
  bool labels(Labels& out) {
    blanks();
    if (!eat('{')) return true;
    for (blanks(); !eat('}'); blanks()) {
      const std::string key(name());
      blanks();
      if (key.empty() || key.find(':') != std::string::npos || !eat('=')) return false;
      blanks();
      std::string value;
      if (!quoted(value) || !out.emplace(key, std::move(value)).second) return false;
      blanks();
      if (!eat(',') && (rest_.empty() || rest_.front() != '}')) return false;
    }
    return true;
  }

  std::string_view word() {
    blanks();
    return take(std::min(rest_.find_first_of(" \t"), rest_.size()));
  }

 private:
  void blanks() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\t'))
      rest_.remove_prefix(1);
  }
  bool eat(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  std::string_view take(std::size_t length) {
    const std::string_view out = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return out;
  }
  bool quoted(std::string& out) {
    if (!eat('"')) return false;
    while (!rest_.empty()) {
      const char c = rest_.front();
      rest_.remove_prefix(1);
      if (c == '"') return true;
      if (c != '\\') {
        out += c;
        continue;
      }
      if (rest_.empty()) return false;
      const char escaped = rest_.front();
      rest_.remove_prefix(1);
      if (escaped == 'n')
        out += '\n';
      else if (escaped == '\\' || escaped == '"')
        out += escaped;
      else
        out.append({'\\', escaped});  // as Prometheus itself reads it
    }
    return false;
  }

  std::string_view rest_;
};

bool carries(const Labels& labels, const Labels& wanted) {
  return std::all_of(wanted.begin(), wanted.end(), [&](const auto& one) {
    const auto found = labels.find(one.first);
    return found != labels.end() && found->second == one.second;
  });
}

// False when the line is none of the format.
bool read_line(std::string_view text, std::string_view name, const Labels& wanted,
               std::vector<Sample>& out) {
  Line line(text);
  if (line.empty() || line.is_comment()) return true;
  const std::string_view metric = line.name();
  Sample sample;
  if (metric.empty() || !line.labels(sample.labels)) return false;
  const std::optional<double> value = number_of(line.word());
  if (!value) return false;
  const std::string_view time = line.word();
  if (!time.empty() && time.front() != '#') {  // "#" begins an exemplar
    if (!number_of(time)) return false;
    const std::string_view more = line.word();
    if (!more.empty() && more.front() != '#') return false;
  }
  sample.value = *value;
  if (metric == name && carries(sample.labels, wanted)) out.push_back(std::move(sample));
  return true;
}

}  // namespace

Result<std::vector<Sample>> samples_of(std::string_view page, std::string_view name,
                                       const Labels& wanted) {
  std::vector<Sample> out;
  for (int number = 1; !page.empty(); ++number) {
    const std::size_t end = page.find('\n');
    std::string_view line = page.substr(0, end);
    if (end == std::string_view::npos && !Line(line).is_comment())
      return Error{Code::kCorrupt, format("line %d is cut short", number)};
    page.remove_prefix(end == std::string_view::npos ? page.size() : end + 1);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (read_line(line, name, wanted, out)) continue;
    return Error{Code::kCorrupt, format("line %d is not Prometheus text: ", number) +
                                     std::string(line.substr(0, 80))};
  }
  return out;
}

}  // namespace mixproof::signal
