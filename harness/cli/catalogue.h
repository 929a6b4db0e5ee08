// Catalogue: what a suite may name in this build, from the tables of probes, faults and services.
#pragma once

#include "suites/plan.h"

namespace mixproof {

Catalogue build_catalogue();

}  // namespace mixproof
