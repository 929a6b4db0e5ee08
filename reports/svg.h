// SVG: the few shapes that the report page draws, as text. Styles are classes of the page's style
// sheet.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mixproof {

// Coordinates with at most one decimal: "12.5", "-3".
std::string coordinate(double value);

// About how wide a sans-serif text of this size is; rather too wide than too narrow.
double text_width(std::string_view text, double size = 12);

class Svg {
 public:
  Svg(double width, double height) : width_(width), height_(height) {}

  void rect(std::string_view style, double x, double y, double width, double height,
            double radius = 0);
  void line(std::string_view style, double x1, double y1, double x2, double y2);
  void path(std::string_view style, const std::string& steps);
  // anchor: start, middle or end. The text is escaped here.
  void text(std::string_view style, double x, double y, std::string_view text,
            std::string_view anchor = "start");

  double width() const { return width_; }
  double height() const { return height_; }
  // `label` is read to those who cannot see the picture; empty: it is hidden from them.
  std::string take(std::string_view style, std::string_view label) const;

 private:
  double width_, height_;
  std::string body_;
};

// Values to pixels. Log scales need 0 < low < high.
struct Scale {
  double low = 0, high = 1, from = 0, to = 1;
  bool logarithmic = false;
  double operator()(double value) const;  // clamped to the ends
};

std::vector<double> round_ticks(double low, double high,
                                int about);  // 0, 20, 40 ...; within the ends
std::vector<double> decade_ticks(double low, double high,
                                 int most);  // 0.01, 0.1, 1 ..., with 2 and 5 where there is room

// Puts spans with a label behind (or before) them into as few rows as possible without overlap.
struct Labelled {
  double from = 0, to = 0;  // pixels
  std::string label;
  // What place_labels fills in.
  int row = 0;
  double label_x = 0;
  bool shown = true;  // the label had room
};
// The number of rows used. `right` is where the room ends.
int place_labels(std::vector<Labelled>& spans, double left, double right);

}  // namespace mixproof
