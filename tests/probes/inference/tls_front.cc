#include "tests/probes/inference/tls_front.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

namespace mixproof::inference {
namespace {

void require(bool good) {
  if (good) return;
  ERR_print_errors_fp(stderr);
  std::abort();
}

void add_extension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
  require(extension != nullptr && X509_add_ext(certificate, extension, -1) == 1);
  X509_EXTENSION_free(extension);
}

bool send_all(int fd, const char* bytes, std::size_t size) {
  while (size > 0) {
    const ssize_t n = ::send(fd, bytes, size, MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace

Certificate::Certificate(const Wish& wish) {
  key_.reset(EVP_EC_gen("P-256"));
  certificate_.reset(X509_new());
  X509* out = certificate_.get();
  require(key_ != nullptr && out != nullptr);
  X509_set_version(out, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(out), std::rand());
  X509_time_adj_ex(X509_getm_notBefore(out), wish.from_days, 0, nullptr);
  X509_time_adj_ex(X509_getm_notAfter(out), wish.until_days, 0, nullptr);
  X509_set_pubkey(out, key_.get());
  X509_NAME* name = X509_get_subject_name(out);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(wish.subject.c_str()), -1, -1,
                             0);
  X509* issuer = wish.issuer == nullptr ? out : wish.issuer->certificate();
  X509_set_issuer_name(out, X509_get_subject_name(issuer));
  add_extension(out, issuer, NID_basic_constraints,
                wish.alternative.empty() ? "critical,CA:TRUE" : "CA:FALSE");
  if (!wish.alternative.empty()) add_extension(out, issuer, NID_subject_alt_name, wish.alternative);
  EVP_PKEY* signer = wish.issuer == nullptr ? key_.get() : wish.issuer->key();
  require(X509_sign(out, signer, EVP_sha256()) != 0);
}

void Certificate::write_to(const std::string& path) const {
  std::FILE* file = std::fopen(path.c_str(), "w");
  require(file != nullptr && PEM_write_X509(file, certificate_.get()) == 1);
  std::fclose(file);
}

TlsFront::TlsFront(const Certificate& certificate, int backend_port)
    : TlsFront(certificate, backend_port, Options{}) {}

TlsFront::TlsFront(const Certificate& certificate, int backend_port, Options options)
    : backend_port_(backend_port),
      options_(options),
      context_(
          [&] {
            SSL_CTX* context = SSL_CTX_new(TLS_server_method());
            require(context != nullptr &&
                    SSL_CTX_use_certificate(context, certificate.certificate()) == 1 &&
                    SSL_CTX_use_PrivateKey(context, certificate.key()) == 1 &&
                    SSL_CTX_set_max_proto_version(context, options.max_version) == 1);
            // As the greeting is read: the client may be through before SSL_accept returns.
            SSL_CTX_set_tlsext_servername_callback(context, &TlsFront::greeted);
            SSL_CTX_set_tlsext_servername_arg(context, this);
            SSL_CTX_set_options(context, SSL_OP_IGNORE_UNEXPECTED_EOF);
            std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes to sockets that are gone
            return context;
          }(),
          SSL_CTX_free),
      listener_([this](int fd, const std::stop_token& stop) { serve(fd, stop); }) {}

int TlsFront::greeted(SSL* ssl, int*, void* front) {
  if (const char* name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name); name != nullptr) {
    auto* self = static_cast<TlsFront*>(front);
    const std::lock_guard lock(self->mutex_);
    self->server_name_ = name;
  }
  return SSL_TLSEXT_ERR_OK;
}

void TlsFront::serve(int fd, const std::stop_token& stop) {
  const std::unique_ptr<SSL, decltype(&SSL_free)> owner(SSL_new(context_.get()), SSL_free);
  SSL* ssl = owner.get();
  SSL_set_fd(ssl, fd);
  const int backend = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = LoopbackListener::to(backend_port_);
  if (SSL_accept(ssl) == 1 &&
      ::connect(backend, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    char buffer[16 * 1024];
    while (!stop.stop_requested()) {
      pollfd both[2] = {{fd, POLLIN, 0}, {backend, POLLIN, 0}};
      if (SSL_pending(ssl) == 0 && ::poll(both, 2, 20) <= 0) continue;
      if (both[0].revents != 0 || SSL_pending(ssl) > 0) {
        const int n = SSL_read(ssl, buffer, sizeof(buffer));
        if (n <= 0 || !send_all(backend, buffer, static_cast<std::size_t>(n))) break;
      }
      if (both[1].revents != 0) {
        const ssize_t n = ::recv(backend, buffer, sizeof(buffer), 0);
        if (n <= 0 || SSL_write(ssl, buffer, static_cast<int>(n)) <= 0) break;
      }
    }
    if (options_.says_goodbye) SSL_shutdown(ssl);
  }
  ERR_clear_error();
  ::close(backend);
}

}  // namespace mixproof::inference
