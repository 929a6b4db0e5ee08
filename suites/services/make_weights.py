"""Random weights for a llama model of a declared shape, with a vocabulary of our own.

Speed and contention depend on a model's shape, not on what it knows, so random weights serve as well as trained
ones, and nothing has to be fetched. The vocabulary is built so that what comes out can be counted: at temperature 0
every sampled token is a whole piece of printable text, so token events equal the tokens of the usage record.
"""

import os
import tempfile
from dataclasses import dataclass

import gguf
import numpy as np

SPACE = "\u2581"  # how SentencePiece writes a space
WORDS = """the of and to in is you that it he was for on are as with his they at be this have from or one had by word
but not what all were we when your can said there use an each which she do how their if will up other about out many
then them these so some her would make like him into time has look two more write go see number no way could people
my than first water been call who oil its now find long down day did get come made may part over new sound take only
little work know place year live me back give most very after thing our just name good sentence man think say great
where help through much before line right too mean old any same tell boy follow came want show also around form three
small set put end does another well large must big even such because turn here why ask went men read need land
different home us move try kind hand picture again change off play spell air away animal house point page letter
mother answer found study still learn should world""".split()

# A chat is its messages, one a line: no markup, so that a prompt is about as long as what the client wrote.
CHAT_TEMPLATE = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"


@dataclass(frozen=True)
class Shape:
    layers: int
    width: int
    heads: int
    ff: int
    context: int  # of one slot
    seed: int


def vocabulary():
    """Texts, token types, and which of the tokens may be sampled."""
    texts = ["<unk>", "<s>", "</s>"]
    kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL]
    texts += [f"<0x{byte:02X}>" for byte in range(256)]
    kinds += [gguf.TokenType.BYTE] * 256
    pieces = [SPACE] + [chr(code) for code in range(0x21, 0x7F)]
    # SentencePiece joins neighbours, so a word is reached only when each of its beginnings is a token too.
    for word in WORDS:
        pieces += [SPACE + word[:length] for length in range(1, len(word) + 1)]
    pieces = list(dict.fromkeys(pieces))
    texts += pieces
    kinds += [gguf.TokenType.NORMAL] * len(pieces)
    # Letters and digits only: brackets or a lone space could be held back by the server's search for markup.
    sampled = [kind == gguf.TokenType.NORMAL and text.lstrip(SPACE).isalnum() for text, kind in zip(texts, kinds)]
    return texts, kinds, np.array(sampled)


def output_rows(random, sampled, width):
    """Rows come in pairs of opposite sign, so one of each pair has a positive logit whatever the state is, and the
    largest logit is never that of a token whose row is zero."""
    chosen = np.flatnonzero(sampled)
    chosen = chosen[: len(chosen) // 2 * 2]
    half = random.standard_normal((len(chosen) // 2, width), dtype=np.float32) / np.sqrt(width)
    rows = np.zeros((len(sampled), width), dtype=np.float32)
    rows[chosen[0::2]] = half
    rows[chosen[1::2]] = -half
    return rows


def write(path, shape):
    texts, kinds, sampled = vocabulary()
    random = np.random.Generator(np.random.PCG64(shape.seed))
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name(f"random {shape.layers}x{shape.width}")
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.ff)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.heads)
    writer.add_rope_dimension_count(shape.width // shape.heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(texts))
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(texts)
    writer.add_token_scores([float(len(text)) if kind == gguf.TokenType.NORMAL else 0.0
                             for text, kind in zip(texts, kinds)])
    writer.add_token_types(kinds)
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template(CHAT_TEMPLATE)

    def matrix(name, rows, columns):
        values = random.standard_normal((rows, columns), dtype=np.float32) / np.sqrt(columns)
        writer.add_tensor(name + ".weight", values.astype(np.float16))

    def norm(name):
        writer.add_tensor(name + ".weight", np.ones(shape.width, dtype=np.float32))

    matrix("token_embd", len(texts), shape.width)
    for layer in range(shape.layers):
        block = f"blk.{layer}."
        norm(block + "attn_norm")
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            matrix(block + part, shape.width, shape.width)
        norm(block + "ffn_norm")
        matrix(block + "ffn_gate", shape.ff, shape.width)
        matrix(block + "ffn_up", shape.ff, shape.width)
        matrix(block + "ffn_down", shape.width, shape.ff)
    norm("output_norm")
    writer.add_tensor("output.weight", output_rows(random, sampled, shape.width).astype(np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def cached(folder, shape, recipe):
    """Path of the weights, written first when they are not there. Safe when several processes call it at once.
    `recipe` names the version of this file, so that weights of another one are never taken for these."""
    name = (f"llama-{shape.layers}x{shape.width}-heads{shape.heads}-ff{shape.ff}-context{shape.context}"
            f"-seed{shape.seed}-{recipe}.gguf")
    path = os.path.join(folder, name)
    if os.path.exists(path):
        return path
    os.makedirs(folder, exist_ok=True)
    handle, unfinished = tempfile.mkstemp(prefix=name + ".", dir=folder)
    os.close(handle)
    try:
        write(unfinished, shape)
        with open(unfinished, "rb") as written:
            os.fsync(written.fileno())
        os.chmod(unfinished, 0o644)
        os.rename(unfinished, path)
    except BaseException:
        os.unlink(unfinished)
        raise
    return path
