#include "core/topology/svg_canvas.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace ddl {
namespace {

// Mean width of a letter of a sans-serif font in units of its size; generous, so that text stays in its box.
constexpr double kLetter = 0.56;

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// Bytes of the UTF-8 sequence at `at`; 0 when it is broken or not allowed in XML.
std::size_t sequence_length(const std::string& text, std::size_t at) {
  unsigned char first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) return first >= 0x20 || first == '\t' || first == '\n' ? 1 : 0;
  std::size_t length = first >= 0xC2 && first <= 0xDF   ? 2
                       : first >= 0xE0 && first <= 0xEF ? 3
                       : first >= 0xF0 && first <= 0xF4 ? 4
                                                        : 0;
  if (length == 0 || at + length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if (!continues(text[at + i])) return 0;
  unsigned char second = static_cast<unsigned char>(text[at + 1]);
  bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  bool outside = (first == 0xED && second >= 0xA0) || (first == 0xF4 && second >= 0x90);
  bool noncharacter = first == 0xEF && second == 0xBF && static_cast<unsigned char>(text[at + 2]) >= 0xBE;
  return overlong || outside || noncharacter ? 0 : length;
}

std::string shortened(const std::string& words, double size, double max_width) {
  std::size_t letters = static_cast<std::size_t>(
      std::count_if(words.begin(), words.end(), [](char c) { return !continues(c); }));
  std::size_t fit = static_cast<std::size_t>(max_width / (size * kLetter));
  if (max_width <= 0 || letters <= fit) return words;
  std::string kept;
  std::size_t used = 0;
  for (char c : words) {
    if (!continues(c) && ++used >= std::max<std::size_t>(fit, 1)) break;
    kept += c;
  }
  return kept + "…";
}

std::string attributes_of(const Paint& paint) {
  std::string text = fmt::format(R"( fill="{}")", paint.fill);
  if (paint.stroke != "none")
    text += fmt::format(R"( stroke="{}" stroke-width="{:g}")", paint.stroke, paint.stroke_width);
  return text;
}

}  // namespace

std::string xml_escaped(const std::string& text) {
  std::string safe;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t length = sequence_length(text, at);
    std::string piece = text.substr(at, std::max<std::size_t>(length, 1));
    at += piece.size();
    if (length == 0)
      safe += "\xEF\xBF\xBD";  // the replacement character
    else if (piece == "&")
      safe += "&amp;";
    else if (piece == "<")
      safe += "&lt;";
    else if (piece == ">")
      safe += "&gt;";
    else if (piece == "\"")
      safe += "&quot;";
    else
      safe += piece;
  }
  return safe;
}

void SvgCanvas::box(const Box& box, const Paint& paint) {
  body_ += fmt::format(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="{:g}"{}/>)", box.x,
                       box.y, box.width, box.height, paint.corner, attributes_of(paint)) +
           "\n";
}

void SvgCanvas::line(Point from, Point to, const Paint& paint) {
  body_ += fmt::format(R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"{}/>)", from.x, from.y, to.x,
                       to.y, attributes_of(paint)) +
           "\n";
}

void SvgCanvas::curve(Point from, Point control, Point to, const Paint& paint, Head head) {
  body_ += fmt::format(R"(<path d="M {:.1f} {:.1f} Q {:.1f} {:.1f} {:.1f} {:.1f}"{}{}/>)", from.x, from.y,
                       control.x, control.y, to.x, to.y, attributes_of(paint),
                       head == Head::arrow ? R"~( marker-end="url(#head)")~" : "") +
           "\n";
}

void SvgCanvas::text(Point at, const std::string& words, const TextStyle& style) {
  constexpr const char* kAnchors[] = {"start", "middle", "end"};
  body_ +=
      fmt::format(R"(<text x="{:.1f}" y="{:.1f}" font-size="{:g}" fill="{}" text-anchor="{}"{}>{}</text>)",
                  at.x, at.y, style.size, style.color, kAnchors[static_cast<int>(style.anchor)],
                  style.bold ? R"( font-weight="bold")" : "",
                  xml_escaped(shortened(words, style.size, style.max_width))) +
      "\n";
}

void SvgCanvas::tooltip(const Box& box, const std::string& words) {
  body_ +=
      fmt::format(
          R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" fill-opacity="0"><title>{}</title></rect>)",
          box.x, box.y, box.width, box.height, xml_escaped(words)) +
      "\n";
}

std::string SvgCanvas::finish(double width, double height, const std::string& title) const {
  return fmt::format(
      R"(<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" width="{0:.0f}" height="{1:.0f}" viewBox="0 0 {0:.0f} {1:.0f}" font-family="DejaVu Sans, Arial, Helvetica, sans-serif">
<title>{2}</title>
<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto"><path d="M 0 0 L 10 5 L 0 10 z" fill="#2f6fb3"/></marker></defs>
<rect width="{0:.0f}" height="{1:.0f}" fill="#ffffff"/>
{3}</svg>
)",
      width, height, xml_escaped(title), body_);
}

}  // namespace ddl
