# Headers that nearly every file includes are parsed once: a quarter of the time of a clean build. Files still include
# what they use.
set(headers <algorithm> <atomic> <functional> <map> <memory> <mutex> <optional> <span> <string> <thread> <vector>
            <fmt/format.h>)
target_precompile_headers(ddl_core PRIVATE ${headers})
foreach(target ddl_session ddl ddl_mpi ddl_nccl ddl_launcher)
  if(TARGET ${target})
    target_precompile_headers(${target} REUSE_FROM ddl_core)
  endif()
endforeach()
if(TARGET ddl_unit_tests)
  target_precompile_headers(ddl_unit_tests PRIVATE <gtest/gtest.h> <random> <set> ${headers})
endif()
# Several files at once: another fifth. What one file names for itself no other file of its folder may name.
option(DDL_UNITY "Compile several files at once: quicker from the start, slower after a change of one" ON)
if(DDL_UNITY)
  foreach(target ddl_core ddl_session ddl ddl_mpi ddl_nccl ddl_gloo ddl_launcher ddl_simulation ddl-bench ddl-bench-calls)
    if(TARGET ${target})
      set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
      target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)  # means headers
    endif()
  endforeach()
endif()
