#include "reports/recording.h"

#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "harness/base/check.h"
#include "harness/base/text.h"

namespace mixproof {
namespace {

constexpr int kCompressionLevel = 3;
constexpr unsigned long long kFrameLimitBytes = 256ULL
                                                << 20;   // one second of rows is far below this
constexpr std::string_view kMagic = "\x28\xb5\x2f\xfd";  // RFC 8878, 3.1.1

struct FreeContext {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
};

enum class FrameState { kWhole, kCut, kDamaged };

struct Frame {
  FrameState state;
  std::size_t bytes = 0;  // compressed
  std::string text;
};

Frame decode_frame(std::string_view bytes) {
  if (bytes.size() < kMagic.size())
    return {kMagic.substr(0, bytes.size()) == bytes ? FrameState::kCut : FrameState::kDamaged};
  if (bytes.substr(0, kMagic.size()) != kMagic) return {FrameState::kDamaged};
  const std::size_t size = ZSTD_findFrameCompressedSize(bytes.data(), bytes.size());
  if (ZSTD_isError(size)) return {FrameState::kCut};
  const unsigned long long length = ZSTD_getFrameContentSize(bytes.data(), size);
  if (length == ZSTD_CONTENTSIZE_UNKNOWN || length == ZSTD_CONTENTSIZE_ERROR ||
      length > kFrameLimitBytes)
    return {FrameState::kDamaged};
  std::string text(static_cast<std::size_t>(length), '\0');
  const std::size_t got = ZSTD_decompress(text.data(), text.size(), bytes.data(), size);
  if (ZSTD_isError(got) || got != text.size()) return {FrameState::kDamaged};
  return {FrameState::kWhole, size, std::move(text)};
}

bool whole_frame_follows(std::string_view bytes) {
  for (std::size_t at = bytes.find(kMagic, 1); at != std::string_view::npos;
       at = bytes.find(kMagic, at + 1))
    if (decode_frame(bytes.substr(at)).state == FrameState::kWhole) return true;
  return false;
}

bool all_zero(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char c) { return c == '\0'; });
}

Status add_rows(std::string_view text, const std::string& where, RecordingRows& out) {
  int line = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) {
      out.torn = true;
      return ok();
    }
    ++line;
    auto row = parse_json(text.substr(0, end), where + " line " + std::to_string(line));
    if (!row) return Error{Code::kCorrupt, std::move(row).error().message};
    if (!row->is_object())
      return Error{Code::kCorrupt, where + " line " + std::to_string(line) + ": not an object"};
    out.rows.push_back(std::move(*row));
    text.remove_prefix(end + 1);
  }
  return ok();
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

void RecordingEncoder::add(const Json& row) { pending_ += line_of(row) + "\n"; }

std::string RecordingEncoder::take_frame() {
  if (pending_.empty()) return "";
  const std::unique_ptr<ZSTD_CCtx, FreeContext> context(ZSTD_createCCtx());
  CHECK(context != nullptr);
  CHECK(!ZSTD_isError(
      ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, kCompressionLevel)));
  CHECK(!ZSTD_isError(ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, 1)));
  std::string frame(ZSTD_compressBound(pending_.size()), '\0');
  const std::size_t size =
      ZSTD_compress2(context.get(), frame.data(), frame.size(), pending_.data(), pending_.size());
  CHECK(!ZSTD_isError(size));
  frame.resize(size);
  pending_.clear();
  return frame;
}

Result<RecordingRows> decode_recording(std::string_view bytes) {
  RecordingRows out;
  out.sha256 = sha256_hex(bytes);
  out.bytes = static_cast<std::int64_t>(bytes.size());
  std::size_t offset = 0;
  for (int number = 1; offset < bytes.size(); ++number) {
    const std::string_view rest = bytes.substr(offset);
    const std::string where = format("recording frame %d at byte %zu", number, offset);
    const Frame frame = decode_frame(rest);
    if (frame.state != FrameState::kWhole) {
      const bool tail =
          (frame.state == FrameState::kCut || all_zero(rest)) && !whole_frame_follows(rest);
      if (!tail) return Error{Code::kCorrupt, where + " is damaged"};
      out.torn = true;
      return out;
    }
    if (out.torn) return Error{Code::kCorrupt, where + " follows a torn line"};
    TRY(add_rows(frame.text, where, out));
    offset += frame.bytes;
  }
  return out;
}

Result<RecordingRows> read_recording(const std::string& path) {
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) return system_error("open " + path);
  std::string bytes, chunk(1 << 20, '\0');
  while (const std::size_t got = std::fread(chunk.data(), 1, chunk.size(), file.get()))
    bytes.append(chunk, 0, got);
  if (std::ferror(file.get())) return system_error("read " + path);
  auto rows = decode_recording(bytes);
  if (!rows) return std::move(rows).error().in(path);
  return rows;
}

}  // namespace mixproof
