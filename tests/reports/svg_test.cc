#include "reports/svg.h"

#include <gtest/gtest.h>

#include <limits>

namespace mixproof {
namespace {

TEST(Svg, CoordinatesAreShortAndFinite) {
  EXPECT_EQ(coordinate(12.04), "12");
  EXPECT_EQ(coordinate(12.06), "12.1");
  EXPECT_EQ(coordinate(-0.01), "0");
  EXPECT_EQ(coordinate(std::numeric_limits<double>::infinity()), "0");
}

TEST(Svg, EscapesItsTexts) {
  Svg svg(10, 10);
  svg.text("x", 1, 2, "<script>");
  const std::string text = svg.take("y", "a \"label\"");
  EXPECT_EQ(text.find("<script>"), std::string::npos);
  EXPECT_NE(text.find("a &quot;label&quot;"), std::string::npos);
}

TEST(Svg, ScalesClampToTheirEnds) {
  const Scale linear{0, 10, 100, 200, false}, logarithmic{0.01, 1, 200, 0, true};
  EXPECT_DOUBLE_EQ(linear(5), 150);
  EXPECT_DOUBLE_EQ(linear(50), 200);
  EXPECT_NEAR(logarithmic(0.1), 100, 1e-9);
  EXPECT_DOUBLE_EQ(logarithmic(0), 200);
}

TEST(Svg, TicksAreRoundAndWithinTheEnds) {
  EXPECT_EQ(round_ticks(0, 106, 6), (std::vector<double>{0, 20, 40, 60, 80, 100}));
  EXPECT_TRUE(round_ticks(1, 1, 5).empty());
  EXPECT_EQ(decade_ticks(0.9, 11, 9), (std::vector<double>{1, 2, 5, 10}));
  EXPECT_LE(decade_ticks(1e-6, 1e3, 9).size(), 10u);
}

TEST(Svg, LabelsDoNotLieOnOneAnother) {
  std::vector<Labelled> spans;
  for (int i = 0; i < 8; ++i)
    spans.push_back({100.0 + 20 * i, 110.0 + 20 * i, "process_pause llm[0]"});
  const int rows = place_labels(spans, 50, 400);
  EXPECT_GT(rows, 1);
  for (const Labelled& a : spans)
    for (const Labelled& b : spans) {
      if (&a == &b || a.row != b.row || !a.shown || !b.shown) continue;
      EXPECT_TRUE(a.label_x + text_width(a.label) <= b.label_x ||
                  b.label_x + text_width(b.label) <= a.label_x);
    }
  for (const Labelled& one : spans) {
    if (!one.shown) continue;
    EXPECT_GE(one.label_x, 50);
    EXPECT_LE(one.label_x + text_width(one.label), 400);
  }
  std::vector<Labelled> alone = {{10, 20, "a"}, {300, 310, "b"}};
  EXPECT_EQ(place_labels(alone, 0, 400), 1);
}

}  // namespace
}  // namespace mixproof
