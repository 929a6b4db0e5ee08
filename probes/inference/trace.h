// Traces: requests of others, replayed. Formats:
//   azure     CSV of the Azure LLM inference traces 2023 and 2024 (Azure/AzurePublicDataset):
//             TIMESTAMP,ContextTokens,GeneratedTokens; "2023-11-16 18:17:03.9799600" or
//             "2024-05-10 00:00:00.009930+00:00"
//   mooncake  JSON lines of Mooncake (kvcache-ai/Mooncake): timestamp in ms, input_length,
//             output_length; hash_ids (shared prefixes) are not reproduced: every prompt is fresh
//   burstgpt  CSV of BurstGPT (HPMLL/BurstGPT): Timestamp in seconds, Request tokens, Response
//             tokens, found by the names of their columns
//   jsonl     our own: {"at_s": 0.5, "prompt_tokens": 100, "answer_tokens": 20}
// An answer of 0 tokens (a failure in BurstGPT) asks for 1.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "probes/inference/lengths.h"
#include "probes/inference/shape.h"

namespace mixproof::inference {

struct TraceRequest {
  std::int64_t at_ns = 0;  // from the begin of the trace: its first request
  RequestLengths lengths;
};

struct TraceFile {
  std::string format;  // as named or detected
  std::vector<TraceRequest> requests;
};

// kInvalid names the file and the line: one that is cut short (also the last one, which must end
// like the others), empty, out of order, or holds a negative number; also a file without requests.
// `format` auto: by the first line. `name` stands for the file in errors.
Result<TraceFile> parse_trace(std::string_view bytes, const std::string& format,
                              const std::string& name);

// What is replayed in every phase, from the phase's begin.
struct Trace {
  std::string format, sha256;               // of the file
  std::vector<TraceRequest> requests;       // by time, on the run's time axis
  std::int64_t period_ns = 0;               // after which a loop begins again
  std::int64_t in_file = 0, shortened = 0;  // requests; those cut to the longest lengths
};

// Reads the file, takes the part from from_s to until_s (times of the trace), divides its times by
// time_scale, then scales the rate: with r < 1 each request stays with probability r; with r > 1
// floor(r) - 1 copies and a thinned one for the rest are added, each shifted round the trace by a
// distance of its own, so that copies do not fall on their originals and bursts stay bursts. All of
// it by the seed, the same in every phase. A loop's period is the length of the part; where
// until_s is 0 it is the time to the last request and one mean gap.
Result<Trace> load_trace(const TraceOptions& options, std::uint64_t seed);
// The same without the file. `file` is consumed.
Result<Trace> scale_trace(TraceFile file, const TraceOptions& options, std::uint64_t seed);

}  // namespace mixproof::inference
