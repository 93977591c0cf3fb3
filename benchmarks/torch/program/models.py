"""Run models of Hugging Face's ``transformers`` on the device, and compare with the CPU.

Runs in an environment with PyTorch and ``transformers``, as ``python models.py [MODEL...]``.
Weights are random and nothing is downloaded. It prints one line of JSON for each model.
"""

import json
import sys
import time
import traceback
import warnings

import torch
import transformers
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

from tessera_torch import counts

VOCABULARY = 211
LENGTH = 24  # tokens that are generated
CLOSE = 1e-4
_TOKENS = {"bos_token_id": 1, "eos_token_id": None, "pad_token_id": 0}


def llama():
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY, hidden_size=64, intermediate_size=176, num_hidden_layers=3,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128,
            initializer_range=0.3, **_TOKENS,
        )
    )  # fmt: skip


def gpt2():
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=VOCABULARY, n_positions=128, n_embd=64, n_layer=3, n_head=4,
            initializer_range=0.3, **_TOKENS,
        )
    )  # fmt: skip


def bert():
    return BertForMaskedLM(
        BertConfig(
            vocab_size=VOCABULARY, hidden_size=64, num_hidden_layers=3, num_attention_heads=4,
            intermediate_size=128, max_position_embeddings=128, initializer_range=0.3,
        )
    )  # fmt: skip


def t5():
    return T5ForConditionalGeneration(
        T5Config(
            vocab_size=VOCABULARY, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4,
            decoder_start_token_id=0, eos_token_id=None, pad_token_id=0, initializer_factor=1.5,
        )
    )  # fmt: skip


MODELS = {"Llama": llama, "GPT-2": gpt2, "BERT": bert, "T5": t5}
WAYS = {"greedy": {"do_sample": False}, "beams": {"do_sample": False, "num_beams": 3}}


def inputs(device):
    """Return two sequences; the first is padded on the left."""
    generator = torch.Generator().manual_seed(3)
    tokens = torch.randint(5, VOCABULARY, (2, 9), generator=generator)
    mask = torch.ones_like(tokens)
    tokens[0, :3] = 0
    mask[0, :3] = 0
    return {"input_ids": tokens.to(device), "attention_mask": mask.to(device)}


def differentiate(model, call, model_inputs):
    """Return the logits that ``call`` computes, and all gradients in one vector."""
    # T5 has a decoder, which gets its inputs from the labels.
    result = call(**model_inputs, labels=model_inputs["input_ids"].clone())
    model.zero_grad()
    result.loss.backward()
    grads = [
        parameter.grad.flatten().cpu()
        for parameter in model.parameters()
        if parameter.grad is not None
    ]
    return result.logits.detach().cpu(), torch.cat(grads)


def compute(model, device):
    """Return the logits, all gradients in one vector, and the tokens of each way."""
    model_inputs = inputs(device)
    logits, gradients = differentiate(model, model, model_inputs)
    tokens = {"most likely": logits.argmax(-1)}
    if model.can_generate():
        for method, options in WAYS.items():
            generated_tokens = model.generate(
                **model_inputs, **options, max_new_tokens=LENGTH, min_new_tokens=LENGTH
            )
            tokens[method] = generated_tokens.cpu()
    return logits, gradients, tokens


def difference(exact, approximation):
    return float((exact.double() - approximation.double()).abs().max() / exact.double().abs().max())


def compare(name):
    torch.manual_seed(1)
    model = MODELS[name]().eval()
    cpu = compute(model, "cpu")
    cuda = compute(model.to("cuda"), "cuda")
    compiled = differentiate(model, torch.compile(model), inputs("cuda"))
    double = compute(model.to("cpu", torch.float64), "cpu")
    tokens = {
        method: bool(torch.equal(cpu_tokens, cuda[2][method]))
        for method, cpu_tokens in cpu[2].items()
    }
    generated = torch.cat([sequence.flatten() for sequence in cpu[2].values()])
    return {
        "name": name,
        "forward": difference(cpu[0], cuda[0]),
        "backward": difference(cpu[1], cuda[1]),
        "compiled forward": difference(cpu[0], compiled[0]),
        "compiled backward": difference(cpu[1], compiled[1]),
        "forward, CPU from float64": difference(double[0], cpu[0]),
        "backward, CPU from float64": difference(double[1], cpu[1]),
        "backward from float64": difference(double[1], cuda[1]),
        "tokens": tokens,
        "different tokens": len(generated.unique()),
        "on cpu": counts.ON_CPU.total(),
    }


def is_right(record):
    near = min(record["backward"], record["backward from float64"])
    compiled = max(record["compiled forward"], record["compiled backward"])
    return all(record["tokens"].values()) and max(record["forward"], near, compiled) < CLOSE


def main():
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    right = True
    for name in sys.argv[1:] or MODELS:
        started = time.perf_counter()
        try:
            record = compare(name)
            record["right"] = is_right(record)
        except Exception as err:
            traceback.print_exc()
            text = f"{type(err).__name__}: {err}"[:300]
            record = {"name": name, "right": False, "error": text}
        right &= record["right"]
        record["seconds"] = round(time.perf_counter() - started, 1)
        print(json.dumps(record), flush=True)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
