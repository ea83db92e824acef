#include "launcher/words.hpp"

#include <gtest/gtest.h>

#include "core/base/error.hpp"

namespace ddl {

TEST(Words, OnlyWordsThatNeedQuotesGetThem) {
  EXPECT_EQ(shell_quote("--mca"), "--mca");
  EXPECT_EQ(shell_quote("a b"), "'a b'");
  EXPECT_EQ(shell_quote("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_quote(""), "''");
  EXPECT_EQ(shell_quote("$RANK"), "'$RANK'");
}

TEST(Words, SplittingUndoesQuoting) {
  Words words = {"a b", "it's", "", "$x", "back\\slash", "\"double\""};
  EXPECT_EQ(split_shell_words(shell_line(words)), words);
}

TEST(Words, BlanksBetweenWordsDoNotMatter) {
  EXPECT_EQ(split_shell_words("  --mca btl\t'a b' "), (Words{"--mca", "btl", "a b"}));
  EXPECT_TRUE(split_shell_words("   ").empty());
}

TEST(Words, AnOpenQuoteIsAnError) { EXPECT_THROW(split_shell_words("--mca 'a b"), UsageError); }

}  // namespace ddl
