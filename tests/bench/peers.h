// Other people's load generators against the same null server, for the bench: run as commands,
// their own reports read. Absent ones are an error that says so.
#pragma once

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "harness/base/json.h"
#include "harness/base/text.h"

namespace mixproof::bench {

// The output of a shell command; an error when it exits with another status than 0.
inline Result<std::string> output_of(const std::string& command) {
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return system_error("popen");
  std::string out;
  std::array<char, 4096> buffer{};
  while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe))
    out.append(buffer.data(), n);
  const int status = ::pclose(pipe);
  if (status != 0)
    return Error{Code::kUnavailable, format("exit status %d: ", WEXITSTATUS(status)) +
                                         out.substr(out.size() > 300 ? out.size() - 300 : 0)};
  return out;
}

struct WrkFigures {
  double requests_per_s = 0, cpu_us_a_request = 0;
};

inline double children_cpu_s() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

inline Result<WrkFigures> run_wrk(const std::string& url, double seconds, int cpu) {
  if (!output_of("command -v wrk").ok()) return Error{Code::kUnavailable, "wrk: not installed"};
  const double cpu_before = children_cpu_s();
  const std::string text = TRY(
      output_of(format("taskset -c %d wrk -t1 -c64 -d%.0fs %s 2>&1", cpu, seconds, url.c_str())));
  const double cpu_s = children_cpu_s() - cpu_before;
  const std::size_t at = text.find("Requests/sec:");
  const std::size_t requests = text.find(" requests in ");
  if (at == std::string::npos || requests == std::string::npos)
    return Error{Code::kCorrupt, "wrk: its output was not understood"};
  const std::size_t number = text.rfind('\n', requests);
  return WrkFigures{std::atof(text.c_str() + at + 13),
                    1e6 * cpu_s / std::atof(text.c_str() + number + 1)};
}

struct PeerFigures {
  double ttft_p50_ms = 0, ttft_p99_ms = 0;
};

// A folder with a tokenizer of words, made with the environment's own libraries: nothing is
// fetched.
inline Result<std::string> local_tokenizer(const std::string& venv, const std::string& folder) {
  const std::string path = folder + "/tokenizer";
  if (std::filesystem::exists(path + "/tokenizer.json")) return path;
  const std::string script =
      "from tokenizers import Tokenizer, models, pre_tokenizers, decoders\n"
      "from transformers import PreTrainedTokenizerFast\n"
      "vocab = {'<unk>': 0, '<s>': 1, '</s>': 2}\n"
      "for a in 'abcdefghijklmnopqrstuvwxyz':\n"
      "    for b in 'abcdefghijklmnopqrstuvwxyz':\n"
      "        vocab[a + b + a + b] = len(vocab)\n"
      "t = Tokenizer(models.WordLevel(vocab, unk_token='<unk>'))\n"
      "t.pre_tokenizer = pre_tokenizers.Whitespace()\n"
      "PreTrainedTokenizerFast(tokenizer_object=t, unk_token='<unk>', bos_token='<s>', "
      "eos_token='</s>').save_pretrained('" +
      path + "')\n";
  const std::string file = folder + "/make_tokenizer.py";
  std::ofstream(file) << script;
  TRY(output_of(venv + "/bin/python " + file + " 2>&1"));
  return path;
}

// {"time_to_first_token": {"p50", "p99"}} in milliseconds.
inline Result<PeerFigures> aiperf_figures(const std::string& path) {
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const Json json = TRY(parse_json(text, path));
  const Json* ttft = member(json, "time_to_first_token");
  if (ttft == nullptr) return Error{Code::kCorrupt, "aiperf: its report has no TTFT"};
  return PeerFigures{number_at(*ttft, "p50"), number_at(*ttft, "p99")};
}

inline Result<PeerFigures> run_aiperf(const std::string& venv, const std::string& folder,
                                      const std::string& url, double rate, double seconds) {
  const std::string tokenizer = TRY(local_tokenizer(venv, folder));
  const std::string artifacts = folder + "/aiperf";
  std::filesystem::remove_all(artifacts);
  TRY(
      output_of(format("cd %s && %s/bin/aiperf profile -m mixproof -u %s --endpoint-type chat "
                       "--streaming --request-rate %.0f --request-count %.0f "
                       "--isl 16 --osl 64 --tokenizer %s "
                       "--artifact-dir %s --ui none 2>&1",
                       folder.c_str(), venv.c_str(), url.c_str(), rate, rate * seconds,
                       tokenizer.c_str(), artifacts.c_str())));
  return aiperf_figures(artifacts + "/profile_export_aiperf.json");
}

inline Result<PeerFigures> guidellm_figures(const std::string& path) {
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const Json json = TRY(parse_json(text, path));
  const Json::json_pointer place(
      "/benchmarks/0/metrics/time_to_first_token_ms/successful/percentiles");
  if (!json.contains(place)) return Error{Code::kCorrupt, "guidellm: its report has no TTFT"};
  return PeerFigures{number_at(json[place], "p50"), number_at(json[place], "p99")};
}

inline Result<PeerFigures> run_guidellm(const std::string& venv, const std::string& folder,
                                        const std::string& url, double rate, double seconds) {
  const std::string tokenizer = TRY(local_tokenizer(venv, folder));
  const std::string out = folder + "/guidellm.json";
  std::filesystem::remove(out);
  TRY(output_of(format(
      "cd %s && %s/bin/guidellm run --backend kind=openai_http,target=%s,model=mixproof "
      "--profile kind=poisson,rate=%.0f --constraint kind=max_duration,seconds=%.0f "
      "--data kind=synthetic_text,prompt_tokens=16,output_tokens=64 "
      "--tokenizer kind=huggingface_auto,model=%s --output kind=json,path=%s "
      "--disable-console 2>&1",
      folder.c_str(), venv.c_str(), url.c_str(), rate, seconds, tokenizer.c_str(), out.c_str())));
  return guidellm_figures(out);
}

inline Result<PeerFigures> run_peer(const std::string& name, const std::string& venv,
                                    const std::string& url, double rate, double seconds) {
  if (venv.empty() || !std::filesystem::exists(venv + "/bin/" + name))
    return Error{Code::kUnavailable, "not installed"};
  const std::string folder =
      (std::filesystem::temp_directory_path() / ("bench-peers-" + std::to_string(::getpid())))
          .string();
  std::filesystem::create_directories(folder);
  return name == "aiperf" ? run_aiperf(venv, folder, url, rate, seconds)
                          : run_guidellm(venv, folder, url, rate, seconds);
}

}  // namespace mixproof::bench
