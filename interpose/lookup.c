/* dlsym: so that programs are seen that take a library's functions from its own handle (NCCL's: CuPy, JAX,
 * vLLM; MPI's: ctypes and whatever chooses its MPI at run time). What the handle answers is replaced by our
 * hook of the same name where that hook would call just this function (ddl_hook_of); every other answer is
 * the dynamic linker's own.
 *
 * Every lookup of every preloaded process comes through here, that of memory checkers while they start too.
 * So: whatever is not asked of a handle by a name that begins with "nccl", "MPI" or "PMPI" goes on by a
 * jump, with its return address, by which RTLD_NEXT knows who asks; the code on this way needs no memory, no
 * lock and nothing of a sanitizer's. Only the first lookup after a load with RTLD_DEEPBIND stops for that
 * (deep_binding.c).
 *
 * Written for x86-64 with glibc; elsewhere lookups are not seen. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

#include "interpose/shim.h"

#if defined(__x86_64__) && defined(__GLIBC__)

/* What the dlsym below does next: jump to `next`, or return `found` where that is NULL. In rax and rdx. */
struct answer {
  void* found;
  ddl_lookup_function* next;
};

DDL_PLAIN_CODE int ddl_may_be_hooked(const char* name) {
  return (name[0] == 'n' && name[1] == 'c' && name[2] == 'c' && name[3] == 'l') ||
         (name[0] == 'M' && name[1] == 'P' && name[2] == 'I' && (name[3] == '_' || name[3] == 'X')) ||
         (name[0] == 'P' && name[1] == 'M' && name[2] == 'P' && name[3] == 'I' &&
          (name[4] == '_' || name[4] == 'X'));
}

DDL_PLAIN_CODE static int asks_a_handle(void* handle, const char* name) {
  return handle != RTLD_DEFAULT && handle != RTLD_NEXT && name;
}

/* LGBM_, XGCommunicator, RabitInit, TFE_ */
DDL_PLAIN_CODE static int may_be_unserved(const char* name) {
  return (name[0] == 'L' && name[1] == 'G') || (name[0] == 'X' && name[1] == 'G') ||
         (name[0] == 'R' && name[1] == 'a') || (name[0] == 'T' && name[1] == 'F');
}

static void* look_up(ddl_lookup_function* next, void* handle, const char* name) {
  void* found = next(handle, name);
  if (!found) return NULL;
  void* hook = ddl_hook_of(name, found);
  dlerror(); /* what that search left there is not the program's */
  return hook ? hook : found;
}

__attribute__((used)) DDL_PLAIN_CODE DDL_SHIM_LOCAL struct answer ddl_answer_lookup(void* handle,
                                                                                    const char* name) {
  ddl_lookup_function* next = ddl_next_lookup();
  if (ddl_has_new_deep_loads()) ddl_look_at_deep_loads();
  if (!next || !asks_a_handle(handle, name)) return (struct answer){NULL, next};
  if (may_be_unserved(name)) ddl_notice_lookup(name);
  if (!ddl_may_be_hooked(name)) return (struct answer){NULL, next};
  return (struct answer){look_up(next, handle, name), NULL};
}

/* In assembler, because no compiler flag promises the jump. */
__asm__(
    ".text\n"
    ".p2align 4\n"
    ".globl dlsym\n"
    ".type dlsym, @function\n"
    "dlsym:\n"
    "  .cfi_startproc\n"
    "  endbr64\n"
    "  pushq %rdi\n"
    "  .cfi_adjust_cfa_offset 8\n"
    "  pushq %rsi\n"
    "  .cfi_adjust_cfa_offset 8\n"
    "  subq $8, %rsp\n"
    "  .cfi_adjust_cfa_offset 8\n"
    "  call ddl_answer_lookup\n"
    "  addq $8, %rsp\n"
    "  .cfi_adjust_cfa_offset -8\n"
    "  popq %rsi\n"
    "  .cfi_adjust_cfa_offset -8\n"
    "  popq %rdi\n"
    "  .cfi_adjust_cfa_offset -8\n"
    "  testq %rdx, %rdx\n"
    "  jz 1f\n"
    "  jmp *%rdx\n"
    "1:\n"
    "  ret\n"
    "  .cfi_endproc\n"
    "  .size dlsym, .-dlsym\n");

#endif
