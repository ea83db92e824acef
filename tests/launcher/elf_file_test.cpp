#include "launcher/elf_file.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <elf.h>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

namespace ddl {
namespace {

// A file of three sections: nothing, the symbols, their names.
struct MadeElf {
  Elf64_Ehdr header{};
  Elf64_Shdr sections[3]{};
  Elf64_Sym symbols[2]{};
  char names[16] = "\0here\0there";

  MadeElf() {
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_shoff = offsetof(MadeElf, sections);
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shnum = 3;
    sections[1].sh_type = SHT_SYMTAB;
    sections[1].sh_offset = offsetof(MadeElf, symbols);
    sections[1].sh_size = sizeof symbols;
    sections[1].sh_link = 2;
    sections[2].sh_type = SHT_STRTAB;
    sections[2].sh_offset = offsetof(MadeElf, names);
    sections[2].sh_size = sizeof names;
    symbols[0].st_name = 1;
    symbols[0].st_shndx = 1;
    symbols[0].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
    symbols[1].st_name = 6;
  }

  // What is visited: each name, with its kind.
  std::string seen(std::size_t bytes = sizeof(MadeElf)) const {
    char name[] = "/tmp/ddl-elf-XXXXXX";
    int file = mkstemp(name);
    EXPECT_EQ(write(file, this, bytes), static_cast<ssize_t>(bytes));
    close(file);
    std::string seen;
    visit_elf_symbols(name, [&](const ElfSymbol& symbol) {
      seen += std::string(symbol.name) + (symbol.function ? "()" : "") + (symbol.defined ? "! " : "? ");
    });
    unlink(name);
    return seen;
  }
};

}  // namespace

TEST(ElfFile, NamesKindsAndDefinitionsAreRead) {
  MadeElf elf;
  EXPECT_EQ(elf.seen(), "here()! there? ");
  elf.sections[1].sh_type = SHT_DYNSYM;
  EXPECT_EQ(elf.seen(), "here()! there? ");
  elf.sections[0].sh_size = 3;
  elf.header.e_shnum = 0;
  EXPECT_EQ(elf.seen(), "here()! there? ") << "the number of sections may be in the first of them";
}

TEST(ElfFile, DamagedFilesHaveNone) {
  auto damaged = [](auto&& damage) {
    MadeElf elf;
    damage(elf);
    return elf.seen();
  };
  EXPECT_EQ(damaged([](MadeElf& elf) { elf.header.e_ident[0] = 'x'; }), "");
  EXPECT_EQ(damaged([](MadeElf& elf) { elf.header.e_ident[EI_CLASS] = ELFCLASS32; }), "");
  EXPECT_EQ(damaged([](MadeElf& elf) { elf.header.e_shoff = ~0ull - 8; }), "");
  EXPECT_EQ(damaged([](MadeElf& elf) { elf.header.e_shoff = 0; }), "");
  EXPECT_EQ(damaged([](MadeElf& elf) { elf.header.e_shentsize = 1; }), "");
  EXPECT_EQ(damaged([](MadeElf& elf) { elf.header.e_shnum = 60000; }), "");
  EXPECT_EQ(damaged([](MadeElf& elf) { elf.sections[1].sh_link = 3; }), "");
  EXPECT_EQ(damaged([](MadeElf& elf) { elf.sections[1].sh_size = ~0ull; }), "");
  EXPECT_EQ(damaged([](MadeElf& elf) { elf.sections[1].sh_offset = ~0ull; }), "");
  EXPECT_EQ(damaged([](MadeElf& elf) { elf.sections[2].sh_offset = 1 << 20; }), "");
  EXPECT_EQ(damaged([](MadeElf& elf) { elf.symbols[0].st_name = 16; }), "there? ");
  EXPECT_EQ(damaged([](MadeElf& elf) { std::memset(elf.names, 'x', sizeof elf.names); }), "");
  EXPECT_EQ(damaged([](MadeElf& elf) { elf.header.e_shnum = 0, elf.sections[0].sh_size = ~0ull; }), "");
}

TEST(ElfFile, FilesThatEndTooSoonHaveNone) {
  for (std::size_t bytes : {std::size_t{0}, std::size_t{3}, sizeof(Elf64_Ehdr), offsetof(MadeElf, symbols)})
    EXPECT_EQ(MadeElf().seen(bytes), "") << bytes;
  visit_elf_symbols("/nonexistent", [](const ElfSymbol&) { FAIL(); });
  visit_elf_symbols("/tmp", [](const ElfSymbol&) { FAIL(); });
}

// A file of two program headers, the second behind a gap.
struct MadeProgram {
  Elf64_Ehdr header{};
  Elf64_Phdr first{};
  char gap[8]{};
  Elf64_Phdr second{};

  MadeProgram() {
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_phoff = offsetof(MadeProgram, first);
    header.e_phnum = 2;
    header.e_phentsize = offsetof(MadeProgram, second) - offsetof(MadeProgram, first);
    first.p_type = second.p_type = PT_LOAD;
  }

  bool has_one(std::size_t bytes = sizeof(MadeProgram)) const {
    char name[] = "/tmp/ddl-elf-XXXXXX";
    int file = mkstemp(name);
    EXPECT_EQ(write(file, this, bytes), static_cast<ssize_t>(bytes));
    close(file);
    bool has = has_interpreter(name);
    unlink(name);
    return has;
  }
};

TEST(ElfFile, AnInterpreterMayBeInAnySegment) {
  MadeProgram program;
  EXPECT_FALSE(program.has_one());
  program.second.p_type = PT_INTERP;
  EXPECT_TRUE(program.has_one());
  program.header.e_phnum = 1;
  EXPECT_FALSE(program.has_one());
  program.first.p_type = PT_INTERP;
  EXPECT_TRUE(program.has_one());
}

TEST(ElfFile, WhatIsNoGoodProgramCountsAsOneWithAnInterpreter) {
  for (std::size_t bytes : {std::size_t{0}, sizeof(Elf64_Ehdr) - 1, sizeof(MadeProgram) - 1})
    EXPECT_TRUE(MadeProgram().has_one(bytes)) << bytes;
  auto damaged = [](auto&& damage) {
    MadeProgram program;
    damage(program);
    return program.has_one();
  };
  EXPECT_TRUE(damaged([](MadeProgram& program) { program.header.e_ident[0] = 'x'; }));
  EXPECT_TRUE(damaged([](MadeProgram& program) { program.header.e_ident[EI_CLASS] = ELFCLASS32; }));
  EXPECT_TRUE(damaged([](MadeProgram& program) { program.header.e_phoff = ~0ull - 8; }));
  EXPECT_TRUE(damaged([](MadeProgram& program) { program.header.e_phnum = 60000; }));
  EXPECT_TRUE(has_interpreter("/nonexistent"));
  EXPECT_TRUE(has_interpreter("/tmp"));
}

}  // namespace ddl
