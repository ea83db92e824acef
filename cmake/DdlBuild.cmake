# Language level, the one warnings target, sanitizers and where things are put.
include(CTest)
set(CMAKE_INSTALL_LIBDIR lib CACHE PATH "")  # ddlrun finds the shim in <prefix>/bin/../lib
include(GNUInstallDirs)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/archive")
# RelWithDebInfo is the release build: optimised, with symbols for stack traces.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O3 -g1 -DNDEBUG")
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O3 -g1 -DNDEBUG")

# By default GCC collects its garbage from 128 MiB on, a tenth of its time. It takes up to a fifth more memory (the
# largest file 915 MB instead of 760).
add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=400000>)

add_library(ddl_warnings INTERFACE)
target_compile_options(ddl_warnings INTERFACE -Wall -Wextra -Wshadow
                       -Wcast-align $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual>)
target_include_directories(ddl_warnings INTERFACE "${PROJECT_SOURCE_DIR}")

set(DDL_SANITIZE "" CACHE STRING "sanitizers for every target, for example address,undefined or thread")
if(DDL_SANITIZE)
  add_compile_options(-fsanitize=${DDL_SANITIZE} -fno-omit-frame-pointer)
  if(DDL_SANITIZE MATCHES "undefined")
    # Undefined behaviour ends the program, where by default it is a line that no test fails for. As a trap, it compiles
    # in four fifths of the time; ASAN_OPTIONS=handle_sigill=1 shows where.
    add_compile_options(-fsanitize-undefined-trap-on-error)
    # A null pointer ends the program without a check, too, and the address sanitizer sees what lies outside of an
    # object: a tenth of the time.
    add_compile_options(-fno-sanitize=null,vptr,object-size)
  endif()
  add_link_options(-fsanitize=${DDL_SANITIZE})
endif()

# GCC clears and copies what it knows to be short (up to 8 KiB) with `rep stos` and `rep movs`. These take 30 ns to start,
# a sixth of a small call. On AMD's Zen they copy at a third to a tenth of the speed where the target lies up to a cache
# line behind the source, counted within a page.
include(CheckCXXCompilerFlag)
foreach(call IN ITEMS memset memcpy)
  set(without_strings "-m${call}-strategy=vector_loop:512:noalign,libcall:-1:noalign")
  check_cxx_compiler_flag("${without_strings}" DDL_HAS_STRATEGY_OF_${call})
  if(DDL_HAS_STRATEGY_OF_${call})
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:${without_strings}>)
  endif()
endforeach()

# A library that is loaded into foreign processes: libstdc++ inside it, nothing exported but the listed symbols. With
# SHARED_UNWINDER foreign exceptions may pass through it: the unwinder is that of the process.
function(ddl_preloaded_library target symbols_file)
  target_link_options(${target} PRIVATE "-Wl,--version-script=${symbols_file}" -Wl,--exclude-libs,ALL
                      -Wl,-z,defs -Wl,-z,nodelete)
  if(NOT DDL_SANITIZE)
    target_link_options(${target} PRIVATE -static-libstdc++)
    if(NOT "SHARED_UNWINDER" IN_LIST ARGN)
      target_link_options(${target} PRIVATE -static-libgcc)
    endif()
  endif()
  set_target_properties(${target} PROPERTIES LINK_DEPENDS "${symbols_file}")
endfunction()

# Files that read command lines or write JSON once per process: templates by the thousand, not worth optimising.
function(ddl_compile_quickly)
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS "-O0")
endfunction()
