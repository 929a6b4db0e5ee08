# Finds the optional vendor libraries, builds a module for each one found, prints a table, and compiles the table in
# (`mixproof list backends`).
set(backend_rows "")
set(backend_table "")
set(backend_count 0)
macro(backend_fact name found detail)
  if(${found})
    set(_word true)
    set(_mark "found")
  else()
    set(_word false)
    set(_mark "left out")
  endif()
  string(APPEND backend_rows "    {\"${name}\", ${_word}, \"${detail}\"},\n")
  string(APPEND backend_table "\n--   ${name}\t${_mark}\t${detail}")
  math(EXPR backend_count "${backend_count} + 1")
endmacro()

backend_fact(cpu 1 "OpenBLAS ${OPENBLAS_VERSION}")

pkg_check_modules(UCX QUIET IMPORTED_TARGET ucx)
if(UCX_FOUND)
  file(GLOB ucx_sources CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} probes/backends/ucx/*.cc)
  add_library(mixproof_ucx MODULE ${ucx_sources})
  set_target_properties(mixproof_ucx PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
  target_link_libraries(mixproof_ucx PRIVATE PkgConfig::UCX backends base)
  backend_fact(ucx 1 "UCX ${UCX_VERSION}")
else()
  backend_fact(ucx 0 "libucx-dev is not installed (pkg-config finds no ucx)")
endif()

pkg_check_modules(URING QUIET liburing)
if(URING_FOUND)
  backend_fact(io_uring 1 "liburing ${URING_VERSION}; no probe uses it yet")
else()
  backend_fact(io_uring 0 "liburing-dev is not installed (pkg-config finds no liburing)")
endif()

find_package(CUDAToolkit QUIET)
if(CUDAToolkit_FOUND)
  backend_fact(cuda 1 "CUDA toolkit ${CUDAToolkit_VERSION}; no probe uses it yet")
else()
  backend_fact(cuda 0 "no CUDA toolkit (nvcc not on PATH)")
endif()

find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR})
if(NCCL_INCLUDE_DIR AND NCCL_LIBRARY)
  backend_fact(nccl 1 "${NCCL_LIBRARY}; no probe uses it yet")
else()
  backend_fact(nccl 0 "nccl.h or libnccl not found")
endif()

file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/backend_facts.cc @ONLY CONTENT
"// Written by cmake/Backends.cmake.
#include \"harness/base/build.h\"
namespace mixproof {
const BackendFact* backend_facts(int* count) {
  static const BackendFact kFacts[] = {
@backend_rows@  };
  *count = @backend_count@;
  return kFacts;
}
}  // namespace mixproof
")
target_sources(build_digest PRIVATE ${PROJECT_BINARY_DIR}/backend_facts.cc)
message(STATUS "Backends:${backend_table}")
