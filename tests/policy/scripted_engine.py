"""vLLM's token endpoint with a script, and a tokenizer in Qwen3.5's form for it."""

from tests.support.scripted_server import replay

_MARKS = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
]


def make_tokenizer(folder):
    """Write a byte-level tokenizer with Qwen3.5's marks; return it as ``tokenizers`` has it."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(["SELECT name FROM team"] * 20, trainer)
    tokenizer.add_tokens([AddedToken(mark, normalized=False) for mark in _MARKS])
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )
    wrapped.save_pretrained(folder)
    return tokenizer


def call_text(name, **arguments):
    """A tool call as Qwen3.5 writes it."""
    values = "".join(
        f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in arguments.items()
    )
    return f"<tool_call>\n<function={name}>\n{values}</function>\n</tool_call>"


class ScriptedEngine:
    """Answers requests of tokens with ``reply(prompt text)``; notes what was asked and answered."""

    def __init__(self, tokenizer, reply):
        self.turns = []
        self._tokenizer = tokenizer
        self._reply = reply

    def __call__(self, body):
        prompt = body["token_ids"]
        text = self._tokenizer.decode(prompt, skip_special_tokens=False)
        written = self._tokenizer.encode(self._reply(text) + "<|im_end|>").ids
        self.turns.append((prompt, written))
        logprobs = [{"token": f"token_id:{token}", "logprob": -0.5} for token in written]
        choice = {"index": 0, "token_ids": written, "finish_reason": "stop"}
        return replay({"choices": [choice | {"logprobs": {"content": logprobs}}]})
