#include "launcher/strings.hpp"

#include <gtest/gtest.h>

#include "core/base/error.hpp"

namespace ddl {

TEST(Strings, OnlyWordsThatNeedQuotesGetThem) {
  EXPECT_EQ(shell_quote("--mca"), "--mca");
  EXPECT_EQ(shell_quote("a b"), "'a b'");
  EXPECT_EQ(shell_quote("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_quote(""), "''");
  EXPECT_EQ(shell_quote("$RANK"), "'$RANK'");
}

TEST(Strings, SplittingUndoesQuoting) {
  Strings words = {"a b", "it's", "", "$x", "back\\slash", "\"double\""};
  EXPECT_EQ(split_shell_words(shell_line(words)), words);
}

TEST(Strings, BlanksBetweenWordsDoNotMatter) {
  EXPECT_EQ(split_shell_words("  --mca btl\t'a b' "), (Strings{"--mca", "btl", "a b"}));
  EXPECT_TRUE(split_shell_words("   ").empty());
}

TEST(Strings, ACommentBeginsWhereAWordDoes) {
  EXPECT_EQ(split_commented_words("a#b \"c # d\" '#' \\#e # don't"), (Strings{"a#b", "c # d", "#", "#e"}));
  EXPECT_TRUE(split_commented_words(" # \"").empty());
  EXPECT_EQ(split_shell_words("a #b"), (Strings{"a", "#b"}));
}

TEST(Strings, AnOpenQuoteIsAnError) { EXPECT_THROW(split_shell_words("--mca 'a b"), UsageError); }

}  // namespace ddl
