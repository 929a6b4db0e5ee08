#include "reports/html.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "harness/base/text.h"

namespace mixproof {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
constexpr std::size_t kFactBytes = 300;
constexpr int kFactDepth = 6;

// U+202A to U+202E and U+2066 to U+2069 turn the direction of what follows, U+2028 and U+2029 end
// lines.
bool turns_text(std::string_view rest) {
  if (rest.size() < 3 || rest[0] != '\xE2') return false;
  const auto second = static_cast<unsigned char>(rest[1]),
             third = static_cast<unsigned char>(rest[2]);
  return (second == 0x80 && third >= 0xA8 && third <= 0xAE) ||
         (second == 0x81 && third >= 0xA6 && third <= 0xA9);
}

struct Prefix {
  double factor;
  const char* sign;
};

std::string with_prefix(double value, const std::vector<Prefix>& prefixes, std::string_view unit) {
  for (const Prefix& prefix : prefixes)
    if (std::fabs(value) >= prefix.factor * 0.9995)
      return digits(value / prefix.factor) + " " + prefix.sign + std::string(unit);
  return digits(value / prefixes.back().factor) + " " + prefixes.back().sign + std::string(unit);
}

void add_facts(const Json& facts, const std::string& name, int depth,
               std::vector<std::string>& out) {
  if (depth > kFactDepth || facts.is_null()) return;
  if (facts.is_object() || (facts.is_array() && !facts.empty() && facts.front().is_structured())) {
    int index = 0;
    for (auto it = facts.begin(); it != facts.end(); ++it, ++index) {
      const std::string key = facts.is_object() ? it.key() : std::to_string(index);
      add_facts(*it, name.empty() ? key : name + "." + key, depth + 1, out);
    }
    return;
  }
  std::string words = facts.is_string()
                          ? facts.get<std::string>()
                          : facts.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (facts.is_number_float()) words = digits(facts.get<double>());
  std::string key = name;
  std::replace(key.begin(), key.end(), '_', ' ');
  out.push_back((key.empty() ? "" : escape_html(shortened(key, kFactBytes)) + " ") + "<b>" +
                escape_html(shortened(words, kFactBytes)) + "</b>");
}

// What is drawn in a circle, square or triangle of 16 by 16.
const char* icon_of(std::string_view status) {
  if (status == "pass" || status == "yes")
    return "<circle cx=\"8\" cy=\"8\" r=\"8\"/><path d=\"M4 8.5l3 3 5-6\"/>";
  if (status == "fail" || status == "no")
    return "<rect width=\"16\" height=\"16\" rx=\"2\"/><path d=\"M4.5 4.5l7 7m0-7l-7 7\"/>";
  if (status == "inconclusive")
    return "<path class=\"face\" d=\"M8 0l8 8-8 8-8-8z\"/><path d=\"M4.4 8.8c1.1-2 2.4-2 "
           "3.6-.8s2.5 1.2 3.6-.8\"/>";
  if (status == "skipped") return "<circle cx=\"8\" cy=\"8\" r=\"8\"/><path d=\"M4 8h8\"/>";
  return "<path class=\"face\" d=\"M8 0l8 15.5h-16z\"/><path d=\"M8 5.5v4.8m0 2.2v.6\"/>";  // error,
                                                                                            // unsafe
}

std::string icon(std::string_view status) {
  return "<svg class=\"icon\" viewBox=\"0 0 16 16\" aria-hidden=\"true\" focusable=\"false\">" +
         std::string(icon_of(status)) + "</svg>";
}

bool is_plain_word(const std::string& word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("_./:=,@%+-").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const auto byte = static_cast<unsigned char>(c);
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (c == '\'')
      out += "&#39;";
    else if ((byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7F)
      out += kReplacement;
    else if (turns_text(text.substr(i))) {
      out += kReplacement;
      i += 2;
    } else
      out += c;
  }
  return out;
}

std::string shortened(std::string_view text, std::size_t most) {
  if (text.size() <= most) return std::string(text);
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0) == 0x80) --most;
  return std::string(text.substr(0, most)) + "\xE2\x80\xA6";
}

std::string digits(double value) {
  if (!std::isfinite(value)) return value > 0 ? "infinite" : "not a number";
  const double size = std::fabs(value);
  if (size == 0) return "0";  // and not "-0"
  if (size >= 99.95 && size < 1e15) return format("%.0f", value);
  if (size < 1e-6 || size >= 1e15) return format("%.2e", value);
  std::string out =
      format("%.*f", std::clamp(2 - static_cast<int>(std::floor(std::log10(size))), 0, 8), value);
  if (out.find('.') != std::string::npos) {
    out.erase(out.find_last_not_of('0') + 1);
    if (out.back() == '.') out.pop_back();
  }
  return out;
}

std::string percent(double share) {
  if (share < 1 && share > 0.9995) return "99.9 %";  // never rounded up to all
  return digits(share * 100) + " %";
}

std::string quantity(double value, std::string_view unit) {
  if (value == 0)
    return unit == "1" || unit == "count" ? "0" : unit == "1/s" ? "0 /s" : "0 " + std::string(unit);
  if (unit == "s") return with_prefix(value, {{1, ""}, {1e-3, "m"}, {1e-6, "\xC2\xB5"}}, "s");
  if (unit == "B" || unit == "B/s")
    return with_prefix(value, {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}}, unit);
  if (unit == "1/s") return digits(value) + " /s";
  if (unit == "1" || unit == "count") return digits(value);
  return digits(value) + " " + std::string(unit);
}

std::string figure_words(const Json* figure, std::string_view unit) {
  constexpr const char* kDash = "\xE2\x80\x93";
  if (figure == nullptr) return kDash;
  if (flag_at(*figure, "infinite")) return "no answer";
  const Json* value = member(*figure, "value");
  return value != nullptr && value->is_number() ? quantity(value->get<double>(), unit) : kDash;
}

std::string facts_line(const Json& facts) {
  std::vector<std::string> parts;
  add_facts(facts, "", 0, parts);
  return join(parts, " \xC2\xB7 ");
}

std::string badge(std::string_view status, std::string_view words) {
  const std::string name = escape_html(status);
  return "<span class=\"badge s-" + name + "\">" + icon(status) +
         (words.empty() ? name : escape_html(words)) + "</span>";
}

std::string yes_or_no(bool yes, std::string_view words_yes, std::string_view words_no) {
  return yes ? badge("yes", words_yes) : badge("no", words_no);
}

std::string table_html(const Table& table) {
  std::string out = "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"" +
                    escape_html(table.label) + "\"><table" +
                    (table.style.empty() ? "" : " class=\"" + table.style + "\"") + ">";
  if (!table.head.empty()) {
    out += "<thead><tr>";
    for (const std::string& cell : table.head) out += "<th scope=\"col\">" + cell + "</th>";
    out += "</tr></thead>";
  }
  out += "<tbody>";
  for (const auto& row : table.rows) {
    out += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i)
      out += i == 0 ? "<th scope=\"row\">" + row[i] + "</th>" : "<td>" + row[i] + "</td>";
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string shell_words(const Json& argv) {
  std::vector<std::string> words;
  if (argv.is_array())
    for (const Json& one : argv) {
      const std::string word = one.is_string() ? one.get<std::string>() : one.dump();
      std::string quoted = "'";
      for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
      words.push_back(is_plain_word(word) ? word : quoted + "'");
    }
  return join(words, " ");
}

}  // namespace mixproof
