/* Libraries that are opened with RTLD_DEEPBIND: what these are linked with stands before everything
 * preloaded, so that an MPI_Allreduce of theirs goes past us. MPItrampoline, which JAX contains, opens its
 * MPI so.
 *
 * The flag stays, since a library may need it for the rest of its symbols. Instead what the dynamic linker
 * has written into such a library's imports is looked through afterwards, and a word that leads to a function
 * that one of our hooks would call is led to that hook. That is what dlsym answers for a handle, too
 * (lookup.c), and calls cost what they cost elsewhere. An auditing library (LD_AUDIT) would see these
 * bindings as they are made; but then every call between libraries takes the long way, of every program.
 *
 * When: our dlopen only notes that such a library is on its way, and goes on by a jump, with its return
 * address, by which the dynamic linker knows whose RUNPATH counts. Whoever uses the library then asks dlsym
 * for a function of it, and that one looks first. So not seen are libraries that call MPI from their
 * constructors, or that hand out their functions there, for good or until somebody asks dlsym; and what a
 * library that was opened so opens itself, since its dlopen and dlsym are libc's.
 *
 * Written for x86-64 with glibc; elsewhere such libraries are not seen. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "interpose/shim.h"

#if defined(__x86_64__) && defined(__GLIBC__)

typedef void* open_function(const char* file, int mode);

static unsigned begun; /* loads with that flag, of all threads */
static __thread unsigned looked_at __attribute__((tls_model("initial-exec")));
static open_function* next_open; /* alike whoever finds it */

/* A load that another thread has begun may not be done when this one looks; that thread looks for itself. */
DDL_PLAIN_CODE int ddl_has_new_deep_loads(void) {
  return __atomic_load_n(&begun, __ATOMIC_RELAXED) != looked_at;
}

__attribute__((used)) DDL_PLAIN_CODE DDL_SHIM_LOCAL open_function* ddl_prepare_open(const char* file,
                                                                                    int mode,
                                                                                    const void* caller) {
  if (file) ddl_notice_open(file, caller);
  if (mode & RTLD_DEEPBIND) __atomic_fetch_add(&begun, 1, __ATOMIC_RELAXED);
  open_function* next = __atomic_load_n(&next_open, __ATOMIC_RELAXED);
  if (next) return next;
  next = (open_function*)(uintptr_t)ddl_dlsym(RTLD_NEXT, "dlopen");
  __atomic_store_n(&next_open, next, __ATOMIC_RELAXED);
  return next;
}

/* In assembler, because no compiler flag promises the jump. */
__asm__(
    ".text\n"
    ".p2align 4\n"
    ".globl dlopen\n"
    ".type dlopen, @function\n"
    "dlopen:\n"
    "  .cfi_startproc\n"
    "  endbr64\n"
    "  pushq %rdi\n"
    "  .cfi_adjust_cfa_offset 8\n"
    "  pushq %rsi\n"
    "  .cfi_adjust_cfa_offset 8\n"
    "  subq $8, %rsp\n"
    "  .cfi_adjust_cfa_offset 8\n"
    "  movq 24(%rsp), %rdx\n"
    "  call ddl_prepare_open\n"
    "  addq $8, %rsp\n"
    "  .cfi_adjust_cfa_offset -8\n"
    "  popq %rsi\n"
    "  .cfi_adjust_cfa_offset -8\n"
    "  popq %rdi\n"
    "  .cfi_adjust_cfa_offset -8\n"
    "  testq %rax, %rax\n"
    "  jz 1f\n"
    "  jmp *%rax\n"
    "1:\n"
    "  ret\n"
    "  .cfi_endproc\n"
    "  .size dlopen, .-dlopen\n");

/* What a loaded object imports, as its dynamic section says. */
struct imports {
  ElfW(Addr) base;
  const ElfW(Sym) * symbols;
  const char* names;
  struct {
    const ElfW(Rela) * rows;
    size_t count;
  } tables[2];
};

/* Nothing where code itself would have to be changed. */
static struct imports imports_of(ElfW(Addr) base, const ElfW(Dyn) * entry) {
  ElfW(Addr) at[DT_JMPREL + 1] = {0};
  size_t relative = 0;
  struct imports found = {.base = base};
  for (; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag >= 0 && entry->d_tag <= DT_JMPREL) at[entry->d_tag] = entry->d_un.d_ptr;
    if (entry->d_tag == DT_RELACOUNT) relative = entry->d_un.d_val; /* these come first, and name nothing */
    if (entry->d_tag == DT_TEXTREL || (entry->d_tag == DT_FLAGS && entry->d_un.d_val & DF_TEXTREL))
      return found;
  }
  if (!at[DT_SYMTAB] || !at[DT_STRTAB]) return found;
  found.symbols = (const ElfW(Sym)*)at[DT_SYMTAB];
  found.names = (const char*)at[DT_STRTAB];
  size_t all = at[DT_RELA] ? at[DT_RELASZ] / sizeof(ElfW(Rela)) : 0;
  if (all > relative) {
    found.tables[0].rows = (const ElfW(Rela)*)at[DT_RELA] + relative;
    found.tables[0].count = all - relative;
  }
  if (at[DT_JMPREL] && at[DT_PLTREL] == DT_RELA) {
    found.tables[1].rows = (const ElfW(Rela)*)at[DT_JMPREL];
    found.tables[1].count = at[DT_PLTRELSZ] / sizeof(ElfW(Rela));
  }
  return found;
}

typedef void visit_function(void** word, const char* name, void* context);

/* The words that were to hold the address of a function that a hook of ours may stand for. */
static void visit_imports(const struct imports* object, visit_function* visit, void* context) {
  for (int t = 0; t < 2; ++t)
    for (size_t i = 0; i < object->tables[t].count; ++i) {
      const ElfW(Rela)* row = &object->tables[t].rows[i];
      const ElfW(Sym)* symbol = &object->symbols[ELF64_R_SYM(row->r_info)];
      ElfW(Addr) word = object->base + row->r_offset;
      if (symbol->st_shndx != SHN_UNDEF || row->r_addend != 0 || word % sizeof(void*) != 0) continue;
      const char* name = object->names + symbol->st_name;
      if (ddl_may_be_hooked(name) || strncmp(name, "PMIx_", 5) == 0) visit((void**)word, name, context);
    }
}

static void note(void** word, const char* name, void* any) {
  (void)word;
  (void)name;
  *(int*)any = 1;
}

struct search {
  size_t objects, first, at;
  unsigned long long loads;
  size_t count;
  char** files; /* that import such functions */
};

static int count_objects(struct dl_phdr_info* info, size_t size, void* result) {
  struct search* search = result;
  (void)size;
  ++search->objects;
  search->loads = info->dlpi_adds;
  return 0;
}

static int find_importers(struct dl_phdr_info* info, size_t size, void* result) {
  struct search* search = result;
  (void)size;
  if (search->at++ < search->first || !*info->dlpi_name) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type != PT_DYNAMIC || !(info->dlpi_phdr[i].p_flags & PF_W)) continue;
    struct imports object =
        imports_of(info->dlpi_addr, (const ElfW(Dyn)*)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr));
    int any = 0;
    visit_imports(&object, note, &any);
    char** files = any ? realloc(search->files, (search->count + 1) * sizeof *files) : NULL;
    if (!files) continue;
    search->files = files;
    search->files[search->count++] = strdup(info->dlpi_name);
  }
  return 0;
}

struct importer {
  void* handle;
  const void* mapped_at;
};

static const void* mapping_of(const void* address) {
  Dl_info found;
  return dladdr(address, &found) ? found.dli_fbase : NULL;
}

/* A word that is not bound yet will be at the first call. Where another preloaded library stands before us
 * that may be to a function of that one: it stays. The page of such a word stays writable, since other
 * threads may be at words of the same. */
static void lead_to_hook(void** word, const char* name, void* context) {
  const struct importer* importer = context;
  const void* leads_to = __atomic_load_n(word, __ATOMIC_RELAXED);
  int bound = mapping_of(leads_to) != importer->mapped_at;
  if (!bound) leads_to = ddl_dlsym(importer->handle, name);
  void* hook = leads_to ? ddl_hook_of(name, leads_to) : NULL;
  if (!hook || (!bound && ddl_dlsym(RTLD_DEFAULT, name) != hook)) return;
  uintptr_t page = (uintptr_t)word & -(uintptr_t)sysconf(_SC_PAGESIZE);
  if (mprotect((void*)page, (uintptr_t)word + sizeof *word - page, PROT_READ | PROT_WRITE) != 0) return;
  __atomic_store_n(word, hook, __ATOMIC_RELAXED);
}

static void rebind(const char* file) {
  struct importer importer = {.handle = dlopen(file, RTLD_LAZY | RTLD_NOLOAD)};
  struct link_map* map;
  if (!importer.handle) return;
  if (dlinfo(importer.handle, RTLD_DI_LINKMAP, &map) == 0) {
    struct imports object = imports_of(map->l_addr, map->l_ld);
    importer.mapped_at = mapping_of(map->l_ld);
    visit_imports(&object, lead_to_hook, &importer);
  }
  dlclose(importer.handle);
}

void ddl_look_at_deep_loads(void) {
  static unsigned long long seen_loads; /* objects loaded when somebody last looked */
  int error = errno;
  struct search search = {0};
  looked_at = __atomic_load_n(&begun, __ATOMIC_RELAXED);
  dl_iterate_phdr(count_objects, &search);
  unsigned long long new_loads = search.loads - __atomic_load_n(&seen_loads, __ATOMIC_RELAXED);
  if (new_loads < search.objects)
    search.first = search.objects - (size_t)new_loads; /* the last are the newest */
  dl_iterate_phdr(find_importers, &search);
  for (size_t i = 0; i < search.count; ++i) {
    if (search.files[i]) rebind(search.files[i]);
    free(search.files[i]);
  }
  free(search.files);
  dlerror(); /* what was left there is not the program's */
  __atomic_store_n(&seen_loads, search.loads, __ATOMIC_RELAXED);
  errno = error;
}

#endif
