# The device kernels: compiled where an nvcc is found that works here, left out elsewhere. nvcc is asked for nothing but
# a fatbin, so neither CUDA's libraries nor a GPU are needed.
set(DDL_NVCC_ROOT "" CACHE PATH "Where nvcc is, if neither in PATH nor /usr/local/cuda: CUDA's folder, or where pip put its packages")
find_program(DDL_NVCC nvcc HINTS "${DDL_NVCC_ROOT}/bin" "${DDL_NVCC_ROOT}/nvidia/cu13/bin" "$ENV{CUDA_PATH}/bin"
             PATHS /usr/local/cuda/bin "${PROJECT_SOURCE_DIR}/build/nvcc/nvidia/cu13/bin")

set(DDL_GPUS "75;80;90;100;120" CACHE STRING "The GPUs that get machine code, as far as nvcc knows them; others translate PTX, which there is of the oldest and the newest")

function(ddl_look_at_nvcc)
  set(DDL_KERNELS_WHY "nvcc is not found" PARENT_SCOPE)
  set(DDL_HAS_KERNELS FALSE PARENT_SCOPE)
  if(NOT DDL_NVCC)
    return()
  endif()
  # Newer compilers than it knows may still do: it needs them for little more than the preprocessor.
  set(command "${DDL_NVCC}" -ccbin "${CMAKE_CXX_COMPILER}" -allow-unsupported-compiler -std=c++17 --fatbin --compress-mode=size)
  execute_process(COMMAND "${DDL_NVCC}" --list-gpu-arch OUTPUT_VARIABLE known ERROR_QUIET)
  # Of what came after compute_90 the kernels need nothing, and nvcc takes four times as long for its PTX.
  set(newest_ptx 90)
  foreach(gpu ${DDL_GPUS})
    if(known MATCHES "compute_${gpu}\n")
      set(ptx ${gpu})
      if(ptx GREATER newest_ptx AND known MATCHES "compute_${newest_ptx}\n")
        set(ptx ${newest_ptx})
      endif()
      list(APPEND targets "-gencode=arch=compute_${ptx},code=sm_${gpu}")
      list(APPEND names "sm_${gpu}")
      if(NOT oldest)
        set(oldest ${ptx})
      endif()
      set(newest ${ptx})
    endif()
  endforeach()
  # PTX of the newest for what comes later, of the oldest for GPUs between, that run neither another family's code nor newer PTX.
  foreach(gpu ${oldest} ${newest})
    list(APPEND targets "-gencode=arch=compute_${gpu},code=compute_${gpu}")
  endforeach()
  list(REMOVE_DUPLICATES targets)
  if(NOT DDL_NVCC_TRIED STREQUAL DDL_NVCC)
    file(WRITE "${PROJECT_BINARY_DIR}/kernels/trial.cu" "#include <cuda_fp16.h>\n__global__ void nothing() {}\n")
    execute_process(COMMAND ${command} "-gencode=arch=compute_${newest},code=compute_${newest}" trial.cu -o trial.fatbin
                    WORKING_DIRECTORY "${PROJECT_BINARY_DIR}/kernels" RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
    if(failed)
      set(DDL_KERNELS_WHY "${DDL_NVCC} does not compile a trial" PARENT_SCOPE)
      return()
    endif()
    set(DDL_NVCC_TRIED "${DDL_NVCC}" CACHE INTERNAL "The nvcc that has compiled a trial")
  endif()
  list(JOIN names " " names)
  set(DDL_KERNELS_FOR "${names} + PTX" PARENT_SCOPE)
  set(DDL_KERNELS_COMMAND ${command} ${targets} PARENT_SCOPE)
  set(DDL_HAS_KERNELS TRUE PARENT_SCOPE)
endfunction()
if(NOT "KERNELS" IN_LIST DDL_WITHOUT)
  ddl_look_at_nvcc()
else()
  set(DDL_HAS_KERNELS FALSE)
  set(DDL_KERNELS_WHY "left out by DDL_WITHOUT")
endif()

# Embeds kernels/reduce.cu, compiled, into the object of `image_source`, a source of `target`.
function(ddl_embed_kernels target image_source)
  if(NOT DDL_HAS_KERNELS)
    return()
  endif()
  set(source "${CMAKE_CURRENT_SOURCE_DIR}/kernels/reduce.cu")
  set(fatbin "${PROJECT_BINARY_DIR}/kernels/reduce.fatbin")
  add_custom_command(OUTPUT "${fatbin}"
                     COMMAND ${DDL_KERNELS_COMMAND} "-I${PROJECT_SOURCE_DIR}" "${source}" -o "${fatbin}"
                     DEPENDS "${source}" "${CMAKE_CURRENT_SOURCE_DIR}/kernels/arguments.hpp"
                     COMMENT "Compiling device kernels for ${DDL_KERNELS_FOR}" VERBATIM)
  add_custom_target(ddl_kernels DEPENDS "${fatbin}")
  add_dependencies(${target} ddl_kernels)
  set_source_files_properties("${image_source}" TARGET_DIRECTORY ${target} PROPERTIES OBJECT_DEPENDS "${fatbin}"
                              COMPILE_DEFINITIONS "DDL_KERNELS_FATBIN=\"${fatbin}\"")
endfunction()
