// The rules of a suite that its declaration alone cannot say. All errors are kInvalid with a JSON
// pointer.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "suites/plan.h"
#include "suites/suite_params.h"

namespace mixproof {

Error invalid_at(const std::string& pointer, const std::string& what);

// Letters, digits, _ and -: names end up in paths, cgroups and dotted settings.
Status check_name(const std::string& pointer, const std::string& name);

// kInvalid with the nearest of `known` unless `name` is one of them; `kind` is what it should have
// been ("role").
Status check_known(const std::string& pointer, const std::string& kind, const std::string& name,
                   const std::vector<std::string>& known);

// Phases, loads and faults are joined already.
Status check_phases(const Plan& plan, const Catalogue& catalogue);

// The limit as the plan holds it: bounds set, longest_wait's quantile filled in.
Result<Limit> check_limit(const RawLimit& raw, const std::string& pointer, const Plan& plan,
                          const Catalogue& catalogue);

// Required limits of method interval in one phase: each of them takes evidence from the others
// (suites/holm.h), so that many would mean that none decides.
inline constexpr int kMostPrimary = 3;
Status check_primary(const Limit& limit, const std::string& pointer, const Plan& plan);

}  // namespace mixproof
