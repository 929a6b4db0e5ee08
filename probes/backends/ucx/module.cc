// The entry of mixproof_ucx.so.
#include "probes/backends/module.h"

#include "harness/base/build.h"
#include "probes/backends/ucx/ring.h"
#include "probes/backends/ucx/session.h"

extern "C" const mixproof::BackendTable* mixproof_backend_entry() {
  static const mixproof::BackendTable table = {mixproof::build_digest(), "ucx",
                                               mixproof::ucx_version(), &mixproof::create_ucx_ring};
  return &table;
}
