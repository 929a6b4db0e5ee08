// Where the sources and the built programs lie. In one source file, so that the others compile to
// the same code wherever the project lies, and a compiler cache knows them again.
#pragma once

namespace mixproof {

extern const char* const kSourceDir;       // the root of the project
extern const char* const kMixproofBinary;  // the program under test

}  // namespace mixproof
