# build_digest: a library with the digest of every source file. Processes and backend modules of another build are
# refused by it. Computed when building, so that an edit changes it.
file(GLOB_RECURSE digest_sources CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/harness/*.cc ${PROJECT_SOURCE_DIR}/harness/*.h
  ${PROJECT_SOURCE_DIR}/probes/*.cc ${PROJECT_SOURCE_DIR}/probes/*.h
  ${PROJECT_SOURCE_DIR}/faults/*.cc ${PROJECT_SOURCE_DIR}/faults/*.h
  ${PROJECT_SOURCE_DIR}/suites/*.cc ${PROJECT_SOURCE_DIR}/suites/*.h ${PROJECT_SOURCE_DIR}/suites/*.py
  ${PROJECT_SOURCE_DIR}/reports/*.cc ${PROJECT_SOURCE_DIR}/reports/*.h)
list(JOIN digest_sources "\n" digest_list)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/digest_sources.txt @ONLY CONTENT "${digest_list}\n")
add_custom_command(
  OUTPUT ${PROJECT_BINARY_DIR}/build_digest.cc
  COMMAND ${CMAKE_COMMAND} -DLIST=${PROJECT_BINARY_DIR}/digest_sources.txt -DVERSION=${PROJECT_VERSION}
          -DOUT=${PROJECT_BINARY_DIR}/build_digest.cc -P ${PROJECT_SOURCE_DIR}/cmake/WriteBuildDigest.cmake
  DEPENDS ${digest_sources} ${PROJECT_BINARY_DIR}/digest_sources.txt ${PROJECT_SOURCE_DIR}/cmake/WriteBuildDigest.cmake
  COMMENT "Digest of the sources")
add_library(build_digest STATIC ${PROJECT_BINARY_DIR}/build_digest.cc)
