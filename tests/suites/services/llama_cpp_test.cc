// How the engine is started and labelled; nothing is started here.
#include "suites/services/llama_cpp.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

namespace mixproof {
namespace {

const ServiceRequest kRequest = {
    .name = "llm", .instance = 1, .address = "10.77.0.3", .port = 8080, .params = Json::object()};
const LlamaEngine kEngine = {"/venv/bin/python", "/src/llm_server.py", "2026.1", "abc", "def"};

// Sets MIXPROOF_PYTHON for one test.
class ChosenPython {
 public:
  explicit ChosenPython(const std::string& path) {
    const char* before = std::getenv("MIXPROOF_PYTHON");
    if (before != nullptr) before_ = before;
    setenv("MIXPROOF_PYTHON", path.c_str(), 1);
  }
  ~ChosenPython() {
    if (before_.empty())
      unsetenv("MIXPROOF_PYTHON");
    else
      setenv("MIXPROOF_PYTHON", before_.c_str(), 1);
  }

 private:
  std::string before_;
};

std::string fake_python(const std::string& body) {
  const std::string path = testing::TempDir() + "mixproof_fake_python_" + std::to_string(getpid());
  std::ofstream(path) << "#!/bin/sh\n" << body << "\n";
  chmod(path.c_str(), 0755);
  return path;
}

TEST(LlamaCpp, PassesShapeAndDigestToTheServer) {
  LlamaSettings settings;
  settings.width = 128;
  const ServiceCommand command = llama_command(settings, kEngine, kRequest);
  const std::vector<std::string> expected = {"/venv/bin/python",
                                             "/src/llm_server.py",
                                             "--address",
                                             "10.77.0.3",
                                             "--native-sha256",
                                             "abc",
                                             "--port",
                                             "8080",
                                             "--layers",
                                             "4",
                                             "--width",
                                             "128",
                                             "--heads",
                                             "8",
                                             "--ff",
                                             "512",
                                             "--context",
                                             "256",
                                             "--slots",
                                             "4",
                                             "--threads",
                                             "1",
                                             "--seed",
                                             "1"};
  EXPECT_EQ(command.argv, expected);
  EXPECT_EQ(command.url, "http://10.77.0.3:8080");
  EXPECT_EQ(command.ready_url, "http://10.77.0.3:8080/health");
}

TEST(LlamaCpp, LabelsDifferWhereverFiguresCannotBeCompared) {
  const std::map<std::string, std::string> labels = llama_command({}, kEngine, kRequest).labels;
  EXPECT_EQ(labels.at("engine"), "llama.cpp");
  EXPECT_EQ(labels.at("wheel"), "xllamacpp 2026.1");
  EXPECT_EQ(labels.at("wheel_digest"), "sha256 of the native library abc");
  EXPECT_EQ(labels.at("shape"), "4x256 heads 8 ff 1024 context 256 slots 4 threads 1");

  LlamaEngine other = kEngine;
  other.native_sha256 = "abd";
  EXPECT_NE(llama_command({}, other, kRequest).labels, labels);
  other = kEngine;
  other.weights_recipe = "deg";
  EXPECT_NE(llama_command({}, other, kRequest).labels, labels);
  for (std::int64_t LlamaSettings::*member :
       {&LlamaSettings::layers, &LlamaSettings::width, &LlamaSettings::heads,
        &LlamaSettings::ff_multiple, &LlamaSettings::context, &LlamaSettings::slots,
        &LlamaSettings::threads, &LlamaSettings::seed}) {
    LlamaSettings settings;
    settings.*member *= 2;
    EXPECT_NE(llama_command(settings, kEngine, kRequest).labels, labels);
  }
  ServiceRequest elsewhere = kRequest;
  elsewhere.port = 9090;
  EXPECT_EQ(llama_command({}, kEngine, elsewhere).labels, labels);
}

TEST(LlamaCpp, SaysWhatIsMissingAndWhatToDo) {
  const auto reason = [](const std::string& python) {
    const ChosenPython chosen(python);
    const Status status = service_kind("llama_cpp")->available();
    return status.ok()
               ? ""
               : std::string(code_name(status.error().code)) + ": " + status.error().message;
  };
  const std::string absent = reason("/nonexistent/python");
  EXPECT_EQ(absent.rfind("invalid: no Python at /nonexistent/python", 0), 0u) << absent;
  EXPECT_NE(absent.find(".ci/setup"), std::string::npos) << absent;

  const std::string without =
      reason(fake_python("echo 'llm_server: the Python package gguf is not installed'; exit 4"));
  EXPECT_NE(without.find("package gguf is not installed"), std::string::npos) << without;
  EXPECT_NE(without.find(".ci/setup"), std::string::npos) << without;

  EXPECT_NE(reason(fake_python("echo nonsense")).find("not valid JSON"), std::string::npos);
  EXPECT_NE(reason(fake_python("echo '{\"version\": \"1\"}'")).find("says too little"),
            std::string::npos);
  EXPECT_EQ(reason(fake_python(
                R"(echo '{"version": "1", "native_sha256": "a", "weights_recipe": "b"}')")),
            "");
}

TEST(LlamaCpp, CommandReportsAMissingEngineToo) {
  const ChosenPython chosen("/nonexistent/python");
  const Result<ServiceCommand> command = service_kind("llama_cpp")->command(kRequest);
  ASSERT_FALSE(command.ok());
  EXPECT_EQ(command.error().code, Code::kInvalid);
}

}  // namespace
}  // namespace mixproof
