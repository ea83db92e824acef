#include "launcher/elf_file.hpp"

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>
#include <vector>

namespace ddl {
namespace {

constexpr std::uint64_t kLargestTable = std::uint64_t{1} << 30;  // damage must not eat the memory

// Gives out parts of a file; whatever the file has not got, or cannot be meant, is empty.
class Parts {
 public:
  explicit Parts(const std::string& name) : file_(name, std::ios::binary | std::ios::ate) {
    if (file_) size_ = static_cast<std::uint64_t>(file_.tellg());
  }

  std::string bytes(std::uint64_t offset, std::uint64_t size) {
    if (offset > size_ || size > size_ - offset || size > kLargestTable) return {};
    std::string part(size, '\0');
    file_.seekg(static_cast<std::streamoff>(offset));
    return file_.read(part.data(), static_cast<std::streamsize>(size)) ? part : std::string();
  }

  template <class T>
  std::vector<T> table(std::uint64_t offset, std::uint64_t count) {
    if (count > kLargestTable / sizeof(T)) return {};
    std::string part = bytes(offset, count * sizeof(T));
    std::vector<T> rows(part.size() / sizeof(T));
    if (!rows.empty()) std::memcpy(rows.data(), part.data(), rows.size() * sizeof(T));
    return rows;
  }

 private:
  std::ifstream file_;
  std::uint64_t size_ = 0;
};

// Nothing where the file is not a 64-bit ELF file.
std::optional<Elf64_Ehdr> header_of(Parts& file) {
  std::vector<Elf64_Ehdr> header = file.table<Elf64_Ehdr>(0, 1);
  if (header.empty() || std::memcmp(header[0].e_ident, ELFMAG, SELFMAG) != 0) return {};
  if (header[0].e_ident[EI_CLASS] != ELFCLASS64) return {};
  return header[0];
}

std::vector<Elf64_Shdr> sections_of(Parts& file) {
  std::optional<Elf64_Ehdr> header = header_of(file);
  if (!header || header->e_shentsize != sizeof(Elf64_Shdr) || header->e_shoff == 0) return {};
  std::uint64_t count = header->e_shnum;
  // More sections than the header can count: then the first of them holds their number.
  if (count == 0)
    if (auto first = file.table<Elf64_Shdr>(header->e_shoff, 1); !first.empty()) count = first[0].sh_size;
  return file.table<Elf64_Shdr>(header->e_shoff, count);
}

bool is_function(const Elf64_Sym& symbol) {
  return ELF64_ST_TYPE(symbol.st_info) == STT_FUNC || ELF64_ST_TYPE(symbol.st_info) == STT_GNU_IFUNC;
}

}  // namespace

void visit_elf_symbols(const std::string& file, const std::function<void(const ElfSymbol&)>& visit) {
  Parts parts(file);
  std::vector<Elf64_Shdr> sections = sections_of(parts);
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_SYMTAB && section.sh_type != SHT_DYNSYM) continue;
    if (section.sh_link >= sections.size()) continue;
    const Elf64_Shdr& strings = sections[section.sh_link];
    std::string names = parts.bytes(strings.sh_offset, strings.sh_size);
    if (names.empty() || names.back() != '\0') continue;
    for (const Elf64_Sym& symbol :
         parts.table<Elf64_Sym>(section.sh_offset, section.sh_size / sizeof(Elf64_Sym)))
      if (symbol.st_name < names.size())
        visit({names.data() + symbol.st_name, is_function(symbol), symbol.st_shndx != SHN_UNDEF});
  }
}

bool has_interpreter(const std::string& file) {
  Parts parts(file);
  std::optional<Elf64_Ehdr> header = header_of(parts);
  if (!header) return true;
  for (std::uint64_t i = 0; i < header->e_phnum; ++i) {
    auto segment = parts.table<Elf64_Phdr>(header->e_phoff + i * header->e_phentsize, 1);
    if (segment.empty() || segment[0].p_type == PT_INTERP) return true;
  }
  return false;
}

}  // namespace ddl
