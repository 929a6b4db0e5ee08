// What this build is. The definitions are written while building (cmake/BuildDigest.cmake).
#pragma once

namespace mixproof {

const char* build_digest();  // of all sources: 16 hex digits; equal digests speak the same protocol
const char* build_version();  // "0.1.0"

struct BackendFact {
  const char* name;  // "ucx"
  bool found;
  const char* detail;  // version, or why it was left out
};
// Written by cmake/Backends.cmake at configure time.
const BackendFact* backend_facts(int* count);

}  // namespace mixproof
