#include "interpose/whole_library.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int ddl_is_cut_short(const char* path) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  ElfW(Ehdr) head;
  struct stat seen;
  int is_short = 0;
  if (fstat(file, &seen) == 0 && S_ISREG(seen.st_mode) && pread(file, &head, sizeof head, 0) == sizeof head &&
      memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 && head.e_phentsize == sizeof(ElfW(Phdr)))
    for (unsigned i = 0; i < head.e_phnum && !is_short; ++i) {
      ElfW(Phdr) part;
      const off_t at = (off_t)(head.e_phoff + i * sizeof part);
      is_short = pread(file, &part, sizeof part, at) != sizeof part ||
                 (part.p_type == PT_LOAD && part.p_offset + part.p_filesz > (ElfW(Xword))seen.st_size);
    }
  close(file);
  return is_short;
}
