// A sheet to draw on: shapes in, an SVG document out. Text is escaped here and nowhere else.
#pragma once

#include <string>

namespace ddl {

struct Point {
  double x = 0, y = 0;
};
struct Box {
  double x = 0, y = 0, width = 0, height = 0;
  Point center() const { return {x + width / 2, y + height / 2}; }
};
struct Paint {
  std::string fill = "none";
  std::string stroke = "none";
  double stroke_width = 1;
  double corner = 0;
};
enum class Anchor { start, middle, end };
struct TextStyle {
  double size = 12;
  std::string color = "#1f2933";
  Anchor anchor = Anchor::start;
  bool bold = false;
  double max_width = 0;  // 0: any; longer text is cut with an ellipsis
};

class SvgCanvas {
 public:
  void box(const Box& box, const Paint& paint);
  void line(Point from, Point to, const Paint& paint);
  /// A curve from `from` to `to`, bent towards `control`; `arrow` puts a head at its end.
  enum class Head { none, arrow };
  void curve(Point from, Point control, Point to, const Paint& paint, Head head);
  /// `at` is on the text's base line.
  void text(Point at, const std::string& words, const TextStyle& style);
  /// Hovering over `box` shows the words.
  void tooltip(const Box& box, const std::string& words);
  /// The whole document.
  std::string finish(double width, double height, const std::string& title) const;

 private:
  std::string body_;
};

/// Text for use in XML: markup escaped, control characters and broken UTF-8 replaced.
std::string xml_escaped(const std::string& text);

}  // namespace ddl
