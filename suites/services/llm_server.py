"""llama.cpp's own server with random weights: the inference engine that a run starts.

    llm_server.py --describe        prints what is installed, as one JSON object; with --load, loads it too
    llm_server.py --address 10.77.0.2 --port 8080 --layers 4 ...

Serves until SIGTERM. Exit codes are those of the whole project: 3 the engine failed, 4 it cannot work here, 6 the
port is taken.
"""

import argparse
import hashlib
import importlib
import importlib.metadata
import importlib.util
import json
import os
import signal
import socket
import sys
import time

EXIT_ERROR, EXIT_INVALID, EXIT_REFUSED = 3, 4, 6

# Each open stream and each health check holds a thread of the server. Too few would make a health check wait behind
# streams, and a proxy would then take a busy engine for a dead one.
HTTP_THREADS = 64


def leave(code, message):
    print(f"llm_server: {message}", file=sys.stderr, flush=True)
    sys.exit(code)


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def weights_recipe():
    return sha256_of(os.path.join(os.path.dirname(os.path.abspath(__file__)), "make_weights.py"))[:12]


def describe():
    """What a figure from this engine must be labelled with. The digest is of the native library as it lies here, not
    of what the wheel's own record claims."""
    for name in ("xllamacpp", "gguf", "numpy"):
        if importlib.util.find_spec(name) is None:
            leave(EXIT_INVALID, f"the Python package {name} is not installed")
    folder = importlib.util.find_spec("xllamacpp").submodule_search_locations[0]
    libraries = [entry.path for entry in os.scandir(folder) if entry.name.endswith(".so")]
    if len(libraries) != 1:
        leave(EXIT_INVALID, f"{folder} holds {len(libraries)} native libraries instead of one")
    return {"version": importlib.metadata.version("xllamacpp"), "native_sha256": sha256_of(libraries[0]),
            "weights_recipe": weights_recipe()}


def check_imports():
    for name in ("gguf", "xllamacpp"):
        try:
            importlib.import_module(name)
        except Exception as error:  # a wheel for another processor or libc fails in many ways
            leave(EXIT_INVALID, f"the Python package {name} cannot be loaded: {error}")


def check_port(address, port):
    """The server's own bind comes later; this one gives the clear message."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
            probe.listen(1)
        except OSError as error:
            leave(EXIT_REFUSED, f"cannot listen on {address}:{port}: {error.strerror}")


def cache_folder():
    folder = os.environ.get("MIXPROOF_CACHE")
    if folder:
        return folder
    home = os.environ.get("HOME")
    if not home:
        leave(EXIT_INVALID, "neither MIXPROOF_CACHE nor HOME is set: no place to keep weights")
    return os.path.join(home, ".cache", "mixproof")


def parameters(arguments, model):
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = model
    params.model_alias = {"mixproof"}
    params.hostnames = [arguments.address]
    params.port = arguments.port
    params.n_parallel = arguments.slots
    params.n_ctx = arguments.context * arguments.slots
    params.kv_unified = False
    params.fit_params = False
    params.n_gpu_layers = 0
    params.cpuparams.n_threads = arguments.threads
    params.cpuparams_batch.n_threads = arguments.threads
    params.n_threads_http = HTTP_THREADS
    # Nothing of an earlier request may make a later one faster.
    params.cache_prompt = False
    params.cache_ram_mib = 0
    params.cache_idle_slots = False
    params.n_ctx_checkpoints = 0
    params.slot_prompt_similarity = 0.0
    # Text goes out as it is sampled: no search for reasoning marks or tool calls that would hold pieces back.
    params.force_pure_content_parser = True
    params.reasoning_format = xllamacpp.common_reasoning_format.COMMON_REASONING_FORMAT_NONE
    params.sampling.temp = 0.0
    params.endpoint_metrics = True
    params.ui = False
    params.offline = True
    params.verbosity = 1  # errors only
    return params


def serve(arguments):
    if arguments.native_sha256:
        found = describe()["native_sha256"]
        if found != arguments.native_sha256:
            leave(EXIT_INVALID, f"the engine's library has digest {found}, the plan says {arguments.native_sha256}")
    check_port(arguments.address, arguments.port)

    import make_weights
    import xllamacpp

    shape = make_weights.Shape(arguments.layers, arguments.width, arguments.heads, arguments.ff, arguments.context,
                               arguments.seed)
    begin = time.monotonic()
    folder = cache_folder()
    try:
        model = make_weights.cached(folder, shape, weights_recipe())
    except OSError as error:
        leave(EXIT_INVALID, f"cannot keep weights in {folder}: {error.strerror}; set MIXPROOF_CACHE to a folder that "
                            "can be written")
    written = time.monotonic()
    try:
        server = xllamacpp.Server(parameters(arguments, model))
    except Exception as error:  # the binding raises whatever the C++ side threw
        check_port(arguments.address, arguments.port)  # somebody may have been quicker
        leave(EXIT_ERROR, f"the engine did not start: {error}")
    print(f"llm_server: ready on {server.listening_address}, weights {written - begin:.2f} s, "
          f"start {time.monotonic() - written:.2f} s, {model}", file=sys.stderr, flush=True)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    while True:
        signal.pause()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--describe", action="store_true")
    parser.add_argument("--load", action="store_true")
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--native-sha256", default="", help="refuse to serve with another one")
    for name in ("port", "layers", "width", "heads", "ff", "context", "slots", "threads", "seed"):
        parser.add_argument("--" + name, type=int, default=None)
    arguments = parser.parse_args()
    if arguments.describe:
        if arguments.load:
            check_imports()
        print(json.dumps(describe()))
        return
    missing = [name for name, value in vars(arguments).items() if value is None]
    if missing:
        leave(EXIT_INVALID, "missing: --" + ", --".join(missing))
    serve(arguments)


if __name__ == "__main__":
    main()
