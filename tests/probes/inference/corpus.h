// The answers of tests/probes/inference/corpus, as bytes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/fake/paths.h"

namespace mixproof::inference {

inline std::filesystem::path corpus_folder() {
  return std::string(kSourceDir) + "/tests/probes/inference/corpus";
}

inline std::string corpus_file(const std::string& name) {
  std::ifstream file(corpus_folder() / (name + ".http"), std::ios::binary);
  EXPECT_TRUE(file.good()) << name;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline std::vector<std::string> corpus_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(corpus_folder()))
    if (entry.path().extension() == ".http") names.push_back(entry.path().stem());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace mixproof::inference
