#include "core/topology/svg_canvas.hpp"

#include <gtest/gtest.h>

namespace ddl {

TEST(SvgCanvas, TextIsEscaped) {
  EXPECT_EQ(xml_escaped("a<b>&\"c\""), "a&lt;b&gt;&amp;&quot;c&quot;");
  EXPECT_EQ(xml_escaped("é→"), "é→");
}

TEST(SvgCanvas, BytesThatXmlForbidsAreReplaced) {
  const std::string kReplacement = "\xEF\xBF\xBD";
  EXPECT_EQ(xml_escaped("a\x01z"), "a" + kReplacement + "z");
  EXPECT_EQ(xml_escaped("a\xffz"), "a" + kReplacement + "z");
  EXPECT_EQ(xml_escaped("a\xC3"), "a" + kReplacement) << "cut in the middle of a letter";
  EXPECT_EQ(xml_escaped(std::string("a\0z", 3)), "a" + kReplacement + "z");
}

TEST(SvgCanvas, LongTextIsCutBetweenLetters) {
  SvgCanvas canvas;
  canvas.text({0, 0}, "éééééééééééééééééééééé", {10, "#000000", Anchor::start, false, 40});
  std::string svg = canvas.finish(10, 10, "t");
  EXPECT_NE(svg.find("é…"), std::string::npos);
  EXPECT_EQ(svg.find("\xEF\xBF\xBD"), std::string::npos);
}

}  // namespace ddl
