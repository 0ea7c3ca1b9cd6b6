"""A tiny random Qwen3 policy directory with a chat template, for tests of what runs policies."""

from pathlib import Path

TEMPLATE = """\
{%- for m in messages %}
{%- if not loop.first %}{{ '\\n' }}{% endif %}
{%- if m.role == 'assistant' %}{{ '<|im_start|>assistant\\n' }}
{%- generation %}{{ m.content or '' }}
{%- for call in m.tool_calls or [] %}
{{- '<tool_call>\\n<function=' + call.function.name + '>\\n' }}
{%- for key, value in call.function.arguments|items %}
{{- '<parameter=' + key + '>\\n' + (value|string) + '\\n</parameter>\\n' }}
{%- endfor %}{{ '</function>\\n</tool_call>' }}
{%- endfor %}{{ '<|im_end|>' }}{% endgeneration %}
{%- elif m.role == 'tool' %}
{{- '<|im_start|>user\\n<tool_response>\\n' + m.content + '\\n</tool_response><|im_end|>' }}
{%- elif m.role == 'user' %}{{ '<|im_start|>user\\n' + m.content + '<|im_end|>' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '\\n<|im_start|>assistant\\n' }}{% endif %}"""


def make_tokenizer():
    """Return a byte-level tokenizer with the markers of the chat and of tool calls."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(["SELECT name FROM team WHERE city = 'x'"] * 50, trainer)
    marks = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]
    calls = ["<tool_call>\n<function=inspect_schema>\n</function>\n</tool_call>"]
    calls += [
        "<tool_call>\n<function=submit>\n<parameter=sql>\n",
        "\n</parameter>\n</function>\n</tool_call>",
    ]
    tokenizer.add_tokens([AddedToken(m, normalized=False, special=False) for m in marks + calls])
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )
    wrapped.chat_template = TEMPLATE
    return wrapped


def make_policy(folder: Path, seed: int = 0, context: int = 512, head_dim: int = 8) -> Path:
    """Write a random model and its tokenizer to ``folder``."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    tokenizer = make_tokenizer()
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=head_dim,
        intermediate_size=64,
        max_position_embeddings=context,
        tie_word_embeddings=False,
        initializer_range=0.3,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    Qwen3ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def teach(directory: Path, messages: list[dict], reply: str) -> None:
    """Train the policy in ``directory`` until it answers ``messages`` with ``reply``."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(directory)
    model = AutoModelForCausalLM.from_pretrained(directory).train()
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    own = [*tokenizer.encode(reply), tokenizer.eos_token_id]
    tokens = torch.tensor([prompt + own])
    labels = torch.tensor([[-100] * len(prompt) + own])
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    loss = torch.tensor(1.0)
    while loss > 0.03:
        loss = model(input_ids=tokens, labels=labels).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(directory)
