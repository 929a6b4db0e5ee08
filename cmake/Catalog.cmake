# catalog(<plural> <Type> <globs>...): an object library of the matching files plus the table that lists them.
# A file named foo.cc must define foo_<type>; if it does not, linking fails.
function(catalog plural type)
  string(TOLOWER ${type} kind)
  set(header ${plural}/${kind}.h)
  set(spec ${type}Spec)
  set(count 0)
  file(GLOB sources CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${ARGN})
  foreach(source IN LISTS sources)
    get_filename_component(name ${source} NAME_WE)
    string(APPEND declarations "extern const ${spec} ${name}_${kind};\n")
    math(EXPR count "${count} + 1")
    string(APPEND rows "      &${name}_${kind},\n")
  endforeach()
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/${plural}_catalog.cc @ONLY CONTENT
"// Written by cmake/Catalog.cmake.
#include <array>

#include \"@header@\"
namespace mixproof {
@declarations@
std::span<const @spec@* const> all_@plural@() {
  static constexpr std::array<const @spec@*, @count@> kAll = {
@rows@  };
  return kAll;
}
}  // namespace mixproof
")
  add_library(${plural} OBJECT ${sources} ${PROJECT_BINARY_DIR}/${plural}_catalog.cc)
  target_precompile_headers(${plural} REUSE_FROM base)
endfunction()
