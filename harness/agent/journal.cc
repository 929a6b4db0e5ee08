#include "harness/agent/journal.h"

#include <zlib.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace mixproof {
namespace {

constexpr std::size_t kHeaderBytes = 8;
constexpr std::uint32_t kRecordBytesMax = 1 << 20;

void put_u32(std::string& out, std::uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8)
    out.push_back(static_cast<char>((value >> shift) & 0xff));
}

std::uint32_t get_u32(std::string_view bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i)
    value |= std::uint32_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return value;
}

std::uint32_t checksum(std::string_view bytes) {
  return static_cast<std::uint32_t>(::crc32(0, reinterpret_cast<const unsigned char*>(bytes.data()),
                                            static_cast<unsigned int>(bytes.size())));
}

// The body of the record that these bytes begin with; empty when they do not begin with a whole and
// sound one.
std::string_view sound_record(std::string_view bytes) {
  const std::uint32_t size = bytes.size() < kHeaderBytes ? 0 : get_u32(bytes);
  if (size == 0 || size > kRecordBytesMax || bytes.size() - kHeaderBytes < size) return {};
  const std::string_view body = bytes.substr(kHeaderBytes, size);
  return checksum(body) == get_u32(bytes.substr(4)) ? body : std::string_view();
}

// File names are made of names from suites; anything else in them becomes '_'.
std::string file_word(std::string_view text) {
  std::string out;
  for (const char c : text)
    out += (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_') ? c : '_';
  return out;
}

}  // namespace

std::string encode_record(const Json& record) {
  const std::string body = line_of(record);
  std::string out;
  put_u32(out, static_cast<std::uint32_t>(body.size()));
  put_u32(out, checksum(body));
  return out + body;
}

Status Journal::write(std::string_view type, Json fields) {
  fields["type"] = type;
  fields["boot_id"] = world_.boot_id();
  fields["boottime_ns"] = world_.now(Clock::kBoottime).count();
  return world_.files().append_synced(path_, encode_record(fields));
}

Result<JournalRecords> decode_journal(std::string_view bytes, const std::string& path) {
  JournalRecords out;
  while (out.sound < bytes.size()) {
    const std::string_view body = sound_record(bytes.substr(out.sound));
    if (body.empty()) {
      // A crash tears only the last record. With a sound one anywhere behind it, this one was
      // damaged later, be it in its length: what it said is unknown.
      for (std::size_t at = out.sound + 1; at < bytes.size(); ++at)
        if (!sound_record(bytes.substr(at)).empty())
          return Error{Code::kCorrupt,
                       path + ": damaged record at byte " + std::to_string(out.sound)};
      out.torn = true;
      return out;
    }
    Result<Json> record = parse_json(body, path);
    if (!record.ok()) return Error{Code::kCorrupt, record.error().message};
    out.records.push_back(std::move(*record));
    out.sound += kHeaderBytes + body.size();
  }
  return out;
}

JournalState journal_state(const JournalRecords& journal) {
  JournalState state;
  state.state = "planned";
  for (const Json& record : journal.records) {
    const std::string type = text_at(record, "type");
    const auto step = static_cast<std::size_t>(integer_at(record, "step"));
    if (type == "plan") {
      state = JournalState();
      state.state = "planned";
      state.boot_id = text_at(record, "boot_id");
      state.run = text_at(record, "run");
      state.fault = text_at(record, "fault");
      state.node = text_at(record, "node");
      state.cgroup = text_at(record, "cgroup");
      if (const Json* plan = member(record, "plan")) state.plan = *plan;
      if (const Json* guard = member(record, "guard")) state.guard = process_from_json(*guard);
      const Json* steps = member(state.plan, "steps");
      state.preimages.resize(steps == nullptr ? 0 : steps->size());
    } else if (type == "lease") {
      state.boot_id = text_at(record, "boot_id");
      state.lease_end = Time(integer_at(record, "end_ns"));
    } else if (type == "preimage") {
      if (step < state.preimages.size()) state.preimages[step] = text_at(record, "value");
    } else if (type == "begin") {
      state.state = "injecting";
      state.begun.push_back(step);
    } else if (type == "done") {
      state.state = "injected";
    } else if (type == "undo_begin") {
      state.state = "reverting";
    } else if (type == "clean") {
      state.state = "clean";
    } else if (type == "dirty") {
      state.state = "dirty";
      state.reason = text_at(record, "reason");
    }
  }
  return state;
}

std::string journal_directory(const std::string& state_dir) { return state_dir + "/faults"; }

std::string journal_path(const std::string& state_dir, const std::string& run,
                         const std::string& fault) {
  return journal_directory(state_dir) + "/" + file_word(run) + "." + file_word(fault) + ".journal";
}

std::string journal_lock(const std::string& journal_path) { return journal_path + ".lock"; }

}  // namespace mixproof
