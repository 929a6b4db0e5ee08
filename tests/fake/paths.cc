#include "tests/fake/paths.h"

namespace mixproof {

const char* const kSourceDir = MIXPROOF_SOURCE_DIR;
const char* const kMixproofBinary = MIXPROOF_BINARY;

}  // namespace mixproof
