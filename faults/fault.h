#pragma once
#include <span>
namespace mixproof {
struct FaultSpec;
std::span<const FaultSpec* const> all_faults();
}
