"""The pocket policy's tokenizer: a small BPE with Qwen's chat and tool-call tokens."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from text2sql.datasets.pocket.traces import demonstrations

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

END_OF_TURN = "<|im_end|>"
PADDING = "<|endoftext|>"
RUN_SQL = "<tool_call>\n<function=run_sql>\n<parameter=sql>\n"
SUBMIT = "<tool_call>\n<function=submit>\n<parameter=sql>\n"

# Frequent runs of the chat form are one token each: turns are short, and so is training.
_SCAFFOLD = (
    *("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"),
    *("<function=", "</function>", "<parameter=", "</parameter>"),
    "<tool_call>\n<function=inspect_schema>\n</function>\n</tool_call>",
    "<tool_call>\n<function=sample_rows>\n<parameter=table>\n",
    RUN_SQL,
    SUBMIT,
    "\n</parameter>\n</function>\n</tool_call>",
    "\n<|im_start|>user\n<tool_response>\n",
    "\n</tool_response>",
    "\n<|im_start|>assistant\n",
    "<|im_start|>user\n",
)

# A keyword keeps the space before it, a space is a token of its own elsewhere, and so is every
# digit: names and numbers then look the same wherever they stand, which is what copying needs.
_PIECES = r" [A-Z]+|, |\*\)|[A-Za-z]+|[0-9]|\s|[^\sA-Za-z0-9]"

_KEYWORDS = """ SELECT FROM WHERE AND OR NOT GROUP BY ORDER HAVING LIMIT JOIN ON AS ASC DESC
 DISTINCT COUNT AVG MAX MIN SUM BETWEEN LIKE IN IS NULL INTEGER REAL TEXT PK
 user assistant system rows row of shown error refused submitted no such table column"""

CHAT_TEMPLATE = (
    "{%- for message in messages if message.role != 'system' %}"
    "{%- if not loop.first %}{{ '\\n' }}{%- endif %}"
    "{%- if message.role == 'assistant' %}"
    "{{ '<|im_start|>assistant\\n' }}"
    "{% generation %}"
    "{{ message.content or '' }}"
    "{%- for call in message.tool_calls or [] %}"
    "{%- set call = call.function if call.function is defined else call %}"
    "{{ '<tool_call>\\n<function=' + call.name + '>\\n' }}"
    "{%- for name, value in (call.arguments or {})|items %}"
    "{{ '<parameter=' + name + '>\\n' }}"
    "{{ value if value is string else value|tojson }}"
    "{{ '\\n</parameter>\\n' }}"
    "{%- endfor %}"
    "{{ '</function>\\n</tool_call>' }}"
    "{%- endfor %}"
    "{{ '<|im_end|>' }}"
    "{% endgeneration %}"
    "{%- elif message.role == 'tool' %}"
    "{{ '<|im_start|>user\\n<tool_response>\\n' + (message.content or '') }}"
    "{{ '\\n</tool_response><|im_end|>' }}"
    "{%- else %}"
    "{{ '<|im_start|>' + message.role + '\\n' + (message.content or '') + '<|im_end|>' }}"
    "{%- endif %}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '\\n<|im_start|>assistant\\n' }}{%- endif %}"
)
"""Qwen3.5's chat form without system message and tool list, which the policy never saw.

Assistant turns are marked for training, and each message begins with the line break that
separates it, so that a longer conversation tokenizes to an extension of a shorter one.
"""


def train_tokenizer() -> PreTrainedTokenizerFast:
    """Train the tokenizer on demonstrations; always the same."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    pieces = pre_tokenizers.Split(Regex(_PIECES), "isolated")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pieces, byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1200,  # without the scaffold
        special_tokens=[PADDING, "<|im_start|>", END_OF_TURN],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    texts = [_KEYWORDS] * 3000
    for messages in islice(demonstrations(11, target_share=0.015, invented_share=0.35), 6000):
        sql = messages[-3]["tool_calls"][0]["function"]["arguments"]["sql"]
        texts += [messages[0]["content"], messages[2]["content"], sql]
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens([AddedToken(t, normalized=False, special=False) for t in _SCAFFOLD])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END_OF_TURN,
        pad_token=PADDING,
        chat_template=CHAT_TEMPLATE,
        padding_side="left",
        model_max_length=1024,
    )
