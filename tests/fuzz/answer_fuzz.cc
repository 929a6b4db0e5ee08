// Fuzz target: any bytes as an answer, over HTTP, server-sent events and JSON. The first byte
// chooses the kind of answer. Whatever comes, the record must not depend on how reads cut the
// bytes.
#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/answer_splits.h"

namespace mixproof::inference {
namespace {

void must_agree(const std::string& whole, const std::string& pieces) {
  if (whole == pieces) return;
  std::fprintf(stderr, "the record depends on the reads:\n  %s\n  %s\n", whole.c_str(),
               pieces.c_str());
  std::abort();
}

}  // namespace
}  // namespace mixproof::inference

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mixproof::inference;
  if (size == 0) return 0;
  const Reading& reading = readings()[data[0] % readings().size()];
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string whole = read_in_pieces(bytes, {}, reading, 4).summary();
  must_agree(whole, read_in_pieces(bytes, after_every_byte(bytes.size()), reading, 4).summary());
  std::uint64_t state = 88172645463325252u + size;  // xorshift: the cuts follow from the size
  std::vector<std::size_t> cuts;
  for (std::size_t at = 0; at < bytes.size();) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    at += 1 + state % 97;
    cuts.push_back(at);
  }
  must_agree(whole, read_in_pieces(bytes, cuts, reading, 4).summary());
  return 0;
}
