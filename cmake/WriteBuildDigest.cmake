file(STRINGS ${LIST} sources)
set(all "")
foreach(source IN LISTS sources)
  file(SHA256 ${source} one)
  string(APPEND all ${one})
endforeach()
string(SHA256 digest "${all}")
string(SUBSTRING ${digest} 0 16 digest)
file(WRITE ${OUT} "#include \"harness/base/build.h\"
namespace mixproof {
const char* build_digest() { return \"${digest}\"; }
const char* build_version() { return \"${VERSION}\"; }
}  // namespace mixproof
")
