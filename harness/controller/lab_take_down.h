// Taking a lab down, for those who hold the lock over all labs. Internal to the lab.
#pragma once

#include "harness/controller/lab.h"

namespace mixproof {

// As lab_down promises, without waiting for the lock.
Status take_down(const std::string& name);

}  // namespace mixproof
