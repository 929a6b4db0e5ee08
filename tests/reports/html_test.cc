#include "reports/html.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace mixproof {
namespace {

TEST(Html, EscapesWhatHasAMeaning) {
  EXPECT_EQ(escape_html("a<b>&\"'"), "a&lt;b&gt;&amp;&quot;&#39;");
  EXPECT_EQ(escape_html("\xC3\xA4 \xE2\x86\x92\n"), "\xC3\xA4 \xE2\x86\x92\n");
  EXPECT_EQ(escape_html(std::string("a\0b\x1B", 4)),
            "a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD");
  EXPECT_EQ(escape_html("\xE2\x80\xAE\xE2\x81\xA6"), "\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(Html, ShortensAtTheEndOfACharacter) {
  EXPECT_EQ(shortened("abc", 3), "abc");
  EXPECT_EQ(shortened("a\xC3\xA4xyz", 2), "a\xE2\x80\xA6");
}

TEST(Html, QuantitiesHaveThreeDigitsAndAFittingPrefix) {
  EXPECT_EQ(quantity(4.264271, "s"), "4.26 s");
  EXPECT_EQ(quantity(0.0183, "s"), "18.3 ms");
  EXPECT_EQ(quantity(0.00099, "s"), "990 \xC2\xB5s");
  EXPECT_EQ(quantity(0.99999, "s"), "1 s");
  EXPECT_EQ(quantity(25276502016, "B"), "25.3 GB");
  EXPECT_EQ(quantity(1234567, "count"), "1234567");
  EXPECT_EQ(quantity(0, "s"), "0 s");
  EXPECT_EQ(digits(-0.0), "0");
  EXPECT_EQ(digits(0.0012345), "0.00123");
}

TEST(Html, AShareBelowAllIsNeverShownAsAll) {
  EXPECT_EQ(percent(1), "100 %");
  EXPECT_EQ(percent(0.99999), "99.9 %");
  EXPECT_EQ(percent(0.865), "86.5 %");
}

TEST(Html, FiguresWithoutAValueAreNotNumbers) {
  EXPECT_EQ(figure_words(nullptr, "s"), "\xE2\x80\x93");
  const Json infinite = {{"value", nullptr}, {"infinite", true}}, missing = {{"value", nullptr}},
             one = {{"value", 0.5}};
  EXPECT_EQ(figure_words(&infinite, "s"), "no answer");
  EXPECT_EQ(figure_words(&missing, "s"), "\xE2\x80\x93");
  EXPECT_EQ(figure_words(&one, "s"), "500 ms");
}

TEST(Html, CommandsCanBePastedIntoAShell) {
  EXPECT_EQ(shell_words({"mixproof", "run", "a b.json", "--set", "x=it's"}),
            "mixproof run 'a b.json' --set 'x=it'\\''s'");
  EXPECT_EQ(shell_words({"$(reboot)", ""}), "'$(reboot)' ''");
}

TEST(Html, StatusesDifferInShapeNotOnlyInColour) {
  std::vector<std::string> badges;
  for (const char* status : {"pass", "fail", "inconclusive", "error", "skipped"}) {
    std::string one = badge(status);
    one = one.substr(one.find("<svg"), one.find("</svg>") - one.find("<svg"));
    EXPECT_EQ(std::count(badges.begin(), badges.end(), one), 0) << status;
    badges.push_back(one);
  }
}

}  // namespace
}  // namespace mixproof
