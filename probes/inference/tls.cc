#include "probes/inference/tls.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <limits>

#include "harness/base/check.h"
#include "harness/base/handle.h"

namespace mixproof::inference {
namespace {

struct ContextTraits {
  using Raw = SSL_CTX*;
  static Raw null() { return nullptr; }
  static void close(Raw raw) noexcept { SSL_CTX_free(raw); }
};
struct SessionTraits {
  using Raw = SSL*;
  static Raw null() { return nullptr; }
  static void close(Raw raw) noexcept { SSL_free(raw); }
};

// What OpenSSL said last on this thread; its queue is empty afterwards.
std::string last_words(const std::string& otherwise) {
  const unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? otherwise : reason;
}

bool is_address(const std::string& name) {
  std::array<unsigned char, sizeof(in6_addr)> out{};
  return inet_pton(AF_INET, name.c_str(), out.data()) == 1 ||
         inet_pton(AF_INET6, name.c_str(), out.data()) == 1;
}

}  // namespace

struct TlsContext::State {
  Handle<ContextTraits> context;
  bool verify = true;
};

TlsContext::TlsContext(std::unique_ptr<State> state) : state_(std::move(state)) {}
TlsContext::~TlsContext() = default;

Result<std::unique_ptr<TlsContext>> TlsContext::create(const TlsOptions& options) {
  ERR_clear_error();
  auto state = std::make_unique<State>();
  state->verify = options.verify;
  state->context = Handle<ContextTraits>(SSL_CTX_new(TLS_client_method()));
  SSL_CTX* context = state->context.get();
  if (context == nullptr) return Error{Code::kInternal, "TLS: " + last_words("no context")};
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);  // idle connections shall not hold 32 KiB
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  constexpr std::string_view kHttp11 = "\x08http/1.1";
  if (SSL_CTX_set_alpn_protos(context, reinterpret_cast<const unsigned char*>(kHttp11.data()),
                              static_cast<unsigned>(kHttp11.size())) != 0)
    return Error{Code::kInternal, "TLS: " + last_words("cannot offer http/1.1")};
  SSL_CTX_set_verify(context, options.verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
  const bool loaded = options.ca_file.empty() ? SSL_CTX_set_default_verify_paths(context) == 1
                                              : SSL_CTX_load_verify_locations(
                                                    context, options.ca_file.c_str(), nullptr) == 1;
  if (options.verify && !loaded)
    return Error{Code::kInvalid, options.ca_file.empty()
                                     ? "TLS: no system store of certificates"
                                     : "ca_file: cannot take certificates from " + options.ca_file +
                                           ": " + last_words("unknown reason")};
  return std::unique_ptr<TlsContext>(new TlsContext(std::move(state)));
}

struct TlsSession::State {
  Handle<SessionTraits> ssl;
  BIO *in = nullptr, *out = nullptr;  // owned by ssl
  bool verify = true, done = false, closed = false;
  std::string error;

  bool fail(const std::string& what) {
    const long verdict = verify ? SSL_get_verify_result(ssl.get()) : X509_V_OK;
    error = verdict != X509_V_OK && !done
                ? "TLS: certificate: " + std::string(X509_verify_cert_error_string(verdict))
                : "TLS: " + last_words(what);
    ERR_clear_error();
    return false;
  }

  // Whether OpenSSL only waits for more bytes.
  bool waits(int result) { return SSL_get_error(ssl.get(), result) == SSL_ERROR_WANT_READ; }

  bool shake_hands() {
    ERR_clear_error();
    const int result = SSL_do_handshake(ssl.get());
    if (result != 1) return waits(result) || fail("the handshake failed");
    done = true;
    return true;
  }

  bool read(std::string& plain) {
    constexpr std::size_t kStep = 16 * 1024;  // the largest record
    while (!closed) {
      ERR_clear_error();
      const std::size_t before = plain.size();
      plain.resize(before + kStep);
      std::size_t taken = 0;
      const int result = SSL_read_ex(ssl.get(), plain.data() + before, kStep, &taken);
      plain.resize(before + taken);
      if (result == 1) continue;
      if (SSL_get_error(ssl.get(), result) == SSL_ERROR_ZERO_RETURN)
        closed = true;
      else
        return waits(result) || fail("the connection broke");
    }
    return true;
  }
};

TlsSession::TlsSession(const TlsContext& context, const std::string& name)
    : state_(std::make_unique<State>()) {
  ERR_clear_error();
  State& state = *state_;
  state.verify = context.state_->verify;
  state.ssl = Handle<SessionTraits>(SSL_new(context.state_->context.get()));
  CHECK(state.ssl.get() != nullptr);
  state.in = BIO_new(BIO_s_mem());
  state.out = BIO_new(BIO_s_mem());
  CHECK(state.in != nullptr && state.out != nullptr);
  BIO_set_mem_eof_return(state.in, -1);  // empty means later, not never
  SSL_set_bio(state.ssl.get(), state.in, state.out);
  SSL_set_connect_state(state.ssl.get());
  X509_VERIFY_PARAM* wanted = SSL_get0_param(state.ssl.get());
  if (is_address(name)) {
    CHECK(X509_VERIFY_PARAM_set1_ip_asc(wanted, name.c_str()) == 1);
  } else {
    X509_VERIFY_PARAM_set_hostflags(wanted, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (X509_VERIFY_PARAM_set1_host(wanted, name.c_str(), name.size()) != 1 ||
        SSL_set_tlsext_host_name(state.ssl.get(), name.c_str()) != 1) {
      state.fail("\"" + name + "\" cannot be the name of a server");
      return;
    }
  }
  state.shake_hands();
}
TlsSession::~TlsSession() = default;

bool TlsSession::handshake_done() const { return state_->done; }

bool TlsSession::receive(std::string_view wire, std::string& plain) {
  State& state = *state_;
  if (!state.error.empty()) return false;
  while (!wire.empty()) {
    const std::size_t most = std::min<std::size_t>(wire.size(), std::numeric_limits<int>::max());
    const int taken = BIO_write(state.in, wire.data(), static_cast<int>(most));
    if (taken <= 0) return state.fail("no memory");
    wire.remove_prefix(static_cast<std::size_t>(taken));
  }
  if (!state.done && !state.shake_hands()) return false;
  return !state.done || state.read(plain);
}

bool TlsSession::send(std::string_view plain) {
  State& state = *state_;
  if (!state.error.empty()) return false;
  ERR_clear_error();
  std::size_t written = 0;
  if (!plain.empty() && SSL_write_ex(state.ssl.get(), plain.data(), plain.size(), &written) != 1)
    return state.fail("cannot send");
  return true;
}

void TlsSession::take_output(std::string& wire) {
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(state_->out, &bytes);
  if (size <= 0) return;
  wire.append(bytes, static_cast<std::size_t>(size));
  (void)BIO_reset(state_->out);
}

bool TlsSession::peer_closed() const { return state_->closed; }
const std::string& TlsSession::error() const { return state_->error; }

}  // namespace mixproof::inference
