// The probe capacity, run by itself with short trials. For tests only.
#pragma once

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "probes/probe.h"
#include "tests/fake/row_list.h"

namespace mixproof {

extern const ProbeSpec capacity_probe;

namespace capacity_runs {

struct Found {
  Status status = ok();
  Status checked = ok();
  std::vector<Json> rows;

  const Json* rate() const {
    for (const Json& row : rows)
      if (row["metric"] == "capacity.rate") return &row;
    return nullptr;
  }
};

inline Found find(const std::string& url, const Json& changes) {
  Json params = {{"url", url},      {"answer_tokens", 2}, {"ttft_s", 0.4},  {"deadline_s", 2},
                 {"settle_s", 0.2}, {"trial_s", 1},       {"pause_s", 0},   {"confidence", 0.9},
                 {"max_trials", 6}, {"looks", 2},         {"resolution", 2}};
  params.update(changes);
  const auto probe = capacity_probe.create();
  Found out;
  out.status = read_params(params, probe->params());
  if (!out.status.ok()) return out;
  fake::RowList rows;
  ProbeContext context{.rows = rows};
  context.seed = 3;
  context.name = "capacity";
  context.info = Json::object();
  out.status = probe->prepare(context);
  if (out.status.ok()) out.status = probe->run(context);
  out.checked = probe->check(context);
  out.rows = rows.rows();
  return out;
}

// What the probe says of its own client is about the machine that runs it, not about the server:
// such a search may be repeated, twice.
inline Found find_undisturbed(const std::string& url, const Json& changes) {
  Found out = find(url, changes);
  for (int again = 0; again < 2; ++again) {
    if (out.status.ok() || out.status.error().code != Code::kUnavailable ||
        out.status.error().message.find("not a limit of the server") == std::string::npos)
      break;
    std::printf("repeated: %s\n", out.status.error().message.c_str());
    out = find(url, changes);
  }
  return out;
}

}  // namespace capacity_runs
}  // namespace mixproof
