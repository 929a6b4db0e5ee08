#include <nlohmann/json.hpp>

#include "faults/fault.h"

namespace mixproof {
namespace {

const char* lease_word(Lease lease) {
  return lease == Lease::kKernel ? "kernel" : lease == Lease::kGuard ? "guard" : "none";
}

Lease lease_of(const std::string& word) {
  return word == "kernel" ? Lease::kKernel : word == "none" ? Lease::kNone : Lease::kGuard;
}

Json params_of(const Json& control) {
  const Json* params = member(control, "params");
  return params == nullptr ? Json() : *params;
}

}  // namespace

// Not in the header: where GCC 12 sees how a variant was made, it takes its other alternatives for
// uninitialised when it is moved.
Step::Step(When step_when, HostOperation step_operation, Lease step_lease)
    : when(step_when), operation(std::move(step_operation)), lease(step_lease) {}

Json fault_plan_to_json(const FaultPlan& plan) {
  Json steps = Json::array(), controls = Json::array();
  for (const Step& step : plan.steps)
    steps.push_back({{"when", step.when == When::kArm ? "arm" : "inject"},
                     {"operation", operation_to_json(step.operation)},
                     {"words", describe(step.operation)},
                     {"lease", lease_word(step.lease)}});
  for (const Control& control : plan.controls)
    controls.push_back({{"positive", control.positive},
                        {"probe", control.probe},
                        {"metric", control.metric},
                        {"of", control.of},
                        {"low", control.low},
                        {"high", control.high},
                        {"params", control.params},
                        {"at", control.at}});
  return {{"effect", plan.effect == Effect::kSustained ? "sustained" : "one_shot"},
          {"steps", steps},
          {"controls", controls},
          {"touches", plan.touches},
          {"residual_life", plan.residual_life},
          {"undo_budget_s", plan.undo_budget_s}};
}

Result<FaultPlan> fault_plan_from_json(const Json& json) {
  FaultPlan plan;
  const Json* steps = member(json, "steps");
  const Json* controls = member(json, "controls");
  if (steps == nullptr || !steps->is_array() || controls == nullptr || !controls->is_array())
    return Error{Code::kCorrupt, "fault plan without steps or controls"};
  plan.effect = text_at(json, "effect") == "one_shot" ? Effect::kOneShot : Effect::kSustained;
  for (const Json& step : *steps) {
    const Json* operation = member(step, "operation");
    if (operation == nullptr) return Error{Code::kCorrupt, "fault step without operation"};
    HostOperation parsed = TRY(operation_from_json(*operation));
    plan.steps.push_back({text_at(step, "when") == "arm" ? When::kArm : When::kInject,
                          std::move(parsed), lease_of(text_at(step, "lease"))});
  }
  for (const Json& control : *controls)
    plan.controls.push_back({flag_at(control, "positive"), text_at(control, "probe"),
                             text_at(control, "metric"), text_at(control, "of"),
                             number_at(control, "low"), number_at(control, "high"),
                             params_of(control), text_at(control, "at")});
  if (const Json* touches = member(json, "touches"); touches != nullptr && touches->is_array())
    for (const Json& touch : *touches)
      if (touch.is_string()) plan.touches.push_back(touch.get<std::string>());
  plan.residual_life = text_at(json, "residual_life");
  plan.undo_budget_s = number_at(json, "undo_budget_s", plan.undo_budget_s);
  return plan;
}

}  // namespace mixproof
