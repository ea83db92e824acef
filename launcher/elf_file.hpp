// What a program file says of itself, read from its headers and symbol tables: nothing is loaded or run. The
// rule a user can break: a stripped program keeps only what it exports and imports, so a name that does not
// come up is no proof of anything. Pure but for reading the file; no state.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace ddl {

struct ElfSymbol {
  std::string_view name;  // valid during the visit only
  bool function = false;
  bool defined = false;  // in this file; false: it is looked for in a shared library
};

/// Visits .symtab and .dynsym of a 64-bit ELF file. Scripts, unreadable and damaged files have no symbols.
void visit_elf_symbols(const std::string& file, const std::function<void(const ElfSymbol&)>& visit);

/// Does a 64-bit ELF file ask for a dynamic linker? Everything that is no such file, or is damaged, counts as
/// yes.
bool has_interpreter(const std::string& file);

}  // namespace ddl
