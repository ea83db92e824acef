#include "core/device/kernels_image.hpp"

#ifdef DDL_KERNELS_FATBIN

asm(R"(
  .pushsection .rodata
  .balign 64
  .hidden ddl_kernels_begin
  .hidden ddl_kernels_end
  .globl ddl_kernels_begin
  .globl ddl_kernels_end
ddl_kernels_begin:
  .incbin ")" DDL_KERNELS_FATBIN R"("
ddl_kernels_end:
  .byte 0
  .popsection
)");

extern "C" [[gnu::visibility("hidden")]] const std::byte ddl_kernels_begin[], ddl_kernels_end[];

namespace ddl {

std::span<const std::byte> kernels_image() { return {ddl_kernels_begin, ddl_kernels_end}; }

}  // namespace ddl

#else

namespace ddl {

std::span<const std::byte> kernels_image() { return {}; }

}  // namespace ddl

#endif
