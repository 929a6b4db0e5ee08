// HTML text of the report page: escaping, and figures with units that people read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/base/json.h"

namespace mixproof {

// Safe between tags and within quoted attributes. Control characters, and those that turn the
// direction of text, become the replacement character: a suite cannot make a page read differently
// from what it says.
std::string escape_html(std::string_view text);

// The first `most` bytes at a character's end, with an ellipsis when something was cut off.
std::string shortened(std::string_view text, std::size_t most);

// "18.3 ms", "4.26 s", "40.2 /s", "25.3 GB": three digits, in the prefix that fits.
std::string quantity(double value, std::string_view unit);
std::string percent(double share);
std::string digits(double value);  // three of them, never an exponent for what people can read

// Of a figure of a report: the value, "no answer" when infinite, a dash when missing.
std::string figure_words(const Json* figure, std::string_view unit);

// "<li>good: 167; scheduled: 167" in one line of words; nested members are joined with dots.
// Escaped.
std::string facts_line(const Json& facts);

// One of pass, fail, inconclusive, error, skipped, unsafe: an icon of its own shape beside the
// word.
std::string badge(std::string_view status, std::string_view words = "");
std::string yes_or_no(bool yes, std::string_view words_yes, std::string_view words_no);

// A table that scrolls within its own box; `label` names the box for those who cannot see it. Cells
// are HTML.
struct Table {
  std::string label, style;
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;  // the first cell names its row
};
std::string table_html(const Table& table);

std::string shell_words(const Json& argv);  // of a list of words; not escaped for HTML

}  // namespace mixproof
