#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "harness/cli/lab.h"
#include "harness/controller/lab_init.h"

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  const auto rest = std::span(args).subspan(args.empty() ? 0 : 1);
  if (!args.empty() && args[0] == "lab") return mixproof::lab_main(rest);
  if (!args.empty() && args[0] == "lab-init") return mixproof::lab_init_main(rest);
  std::fputs("usage: mixproof lab ...\n", stderr);
  return 4;
}
