#!/bin/bash
# From a fresh Debian 12 to a verdict: installs what is missing, builds, and runs a mixed cluster on this machine.
# A second call installs and builds nothing. Options go to `mixproof demo` (see --help).
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

"$top/.ci/setup" --for-demo
"$top/.ci/build" release mixproof
exec "$top/build/mixproof" demo "$@"
