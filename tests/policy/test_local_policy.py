"""The in-process policy: the same replies as plain generation, whatever runs beside them."""

import asyncio
import json
import math
import os
import shutil
import subprocess
import sys
from random import Random

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

from tests.support.tiny_policy import make_policy
from text2sql.agent.tool_calls import TOOL_SCHEMAS
from text2sql.errors import InfrastructureError, Text2SqlError
from text2sql.policy.base import ContextOverflow, Sampling
from text2sql.policy.local.batching import Batch, Turn, draw
from text2sql.policy.local.policy import LocalPolicy
from text2sql.policy.weights import directory_revision

QUESTIONS = ["How many teams are there?", "List the names of all teams in Oslo.", "x", "Why?" * 30]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_policy(tmp_path_factory.mktemp("policy"))


@pytest.fixture(scope="module")
def policy(folder):
    opened = LocalPolicy(folder, threads=1, max_batch=8)
    yield opened
    asyncio.run(opened.close())


def prompt(policy, text):
    return policy.encode([{"role": "user", "content": text}], TOOL_SCHEMAS)


def generated(policy, tokens, new):
    """Return what Hugging Face's own generate writes greedily."""
    return policy.model.generate(
        torch.tensor([tokens]),
        attention_mask=torch.ones(1, len(tokens), dtype=torch.long),
        do_sample=False,
        max_new_tokens=new,
        eos_token_id=sorted(policy.stop),
    )[0, len(tokens) :].tolist()


def finish(batch, turns):
    """Step until every turn is complete."""
    for turn in turns:
        batch.add(turn)
    while batch.busy:
        batch.step()
    return [turn.reply for turn in turns]


def greedy(tokens, new):
    return Turn(tokens, 0.0, 1.0, new, Random())


def test_a_greedy_batch_writes_what_generate_writes_one_by_one(policy):
    prompts = [prompt(policy, text) for text in QUESTIONS]
    batch = Batch(policy.model, policy.stop, max_rows=3)
    lengths = [40, 7, 60, 25]
    turns = [greedy(*pair) for pair in zip(prompts, lengths, strict=True)]
    sampled = Turn(prompts[0], 1.0, 0.9, 30, Random(1))
    replies = finish(batch, [*turns, sampled])[: len(turns)]
    expected = [generated(policy, *pair) for pair in zip(prompts, lengths, strict=True)]
    assert replies == expected
    assert len({tuple(reply) for reply in replies}) > 1


def test_the_next_turn_feeds_only_what_is_new_and_writes_the_same(policy):
    batch = Batch(policy.model, policy.stop, max_rows=8)
    firsts = [greedy(prompt(policy, text), 9) for text in QUESTIONS]
    finish(batch, firsts)
    nexts = [greedy(r.prompt + r.reply + prompt(policy, "and then?"), 30) for r in firsts]
    replies = finish(batch, nexts)
    # The token that ended the first reply at its limit was never fed, so it is not in the cache.
    assert [r.reused for r in nexts] == [len(r.prompt) + len(r.reply) - 1 for r in firsts]
    assert replies == [generated(policy, r.prompt, 30) for r in nexts]


def test_a_conversation_that_was_rewritten_is_fed_from_where_it_differs(policy):
    batch = Batch(policy.model, policy.stop, max_rows=1)
    first = greedy(prompt(policy, QUESTIONS[1]), 9)
    finish(batch, [first])
    changed = greedy([*first.prompt[:-4], 7, 8, 9], 20)
    assert finish(batch, [changed]) == [generated(policy, changed.prompt, 20)]
    assert changed.reused == len(first.prompt) - 4


def test_shared_prefixes_are_fed_once(policy, monkeypatch):
    fed = []
    batch = Batch(policy.model, policy.stop, max_rows=8)
    forward = batch._cache.forward
    monkeypatch.setattr(
        batch._cache,
        "forward",
        lambda rows, lengths, tokens: (
            fed.append(sum(map(len, tokens))) or forward(rows, lengths, tokens)
        ),
    )
    shared = prompt(policy, "Which teams are there in the north? " * 4)
    turns = [greedy([*shared, *prompt(policy, f"{i} then?")], 8) for i in range(5)]
    replies = finish(batch, [greedy(shared, 1), *turns[:3]])[1:]
    replies += finish(batch, turns[3:])
    assert replies == [generated(policy, turn.prompt, 8) for turn in turns]
    assert all(turn.reused >= len(shared) - 1 for turn in turns[1:])
    assert sum(fed) < 2 * len(shared) + sum(len(r.prompt) - len(shared) + 8 for r in turns)


def test_long_prompts_are_fed_in_parts(policy, monkeypatch):
    monkeypatch.setattr("text2sql.policy.local.batching._FEED_WIDTH", 16)
    monkeypatch.setattr("text2sql.policy.local.batching._FEED_TOKENS", 40)
    batch = Batch(policy.model, policy.stop, max_rows=8)
    prompts = [prompt(policy, text * 3) for text in QUESTIONS]
    replies = finish(batch, [greedy(tokens, 12) for tokens in prompts])
    assert replies == [generated(policy, tokens, 12) for tokens in prompts]


def test_few_running_rows_among_many_idle_ones_move_together(policy):
    batch = Batch(policy.model, policy.stop, max_rows=16)
    firsts = [greedy(prompt(policy, f"question {i}"), 3) for i in range(12)]
    finish(batch, firsts)
    late = greedy(firsts[11].prompt + firsts[11].reply + prompt(policy, "go on"), 20)
    early = greedy(firsts[0].prompt + firsts[0].reply + prompt(policy, "go on"), 20)
    assert finish(batch, [late]) == [generated(policy, late.prompt, 20)]
    assert finish(batch, [early]) == [generated(policy, early.prompt, 20)]
    assert early.reused > len(firsts[0].prompt)


def test_a_cancelled_request_frees_its_row(policy):
    batch = Batch(policy.model, policy.stop, max_rows=1)
    endless, waiting = greedy(prompt(policy, "x"), 400), greedy(prompt(policy, "y"), 5)
    batch.add(endless)
    batch.step()
    endless.cancelled = True
    assert len(finish(batch, [waiting])[0]) <= 5
    assert len(endless.reply) == 1


def test_sampling_follows_the_distribution_and_top_p_cuts_its_tail():
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log().repeat(4000, 1)
    stream = Random(1)
    turns = [Turn([], 1.0, top_p, 1, stream) for top_p in [1.0] * 2000 + [0.75] * 2000]
    tokens = draw(logits, turns)
    free = [tokens[:2000].count(token) / 2000 for token in range(4)]
    cut = [tokens[2000:].count(token) / 2000 for token in range(4)]
    assert free == pytest.approx([0.5, 0.3, 0.15, 0.05], abs=0.05)
    assert cut == pytest.approx([0.625, 0.375, 0, 0], abs=0.05)


def test_replies_do_not_depend_on_concurrent_conversations(policy):
    async def talk(text):
        messages = [{"role": "user", "content": text}]
        for _ in range(3):
            reply = await policy.complete(messages, TOOL_SCHEMAS, Sampling(max_tokens=16))
            messages += [reply.message, {"role": "user", "content": "go on"}]
        return [message["content"] for message in messages]

    async def together(texts):
        return await asyncio.gather(*map(talk, texts))

    texts = [f"{text} {i}" for text in QUESTIONS[:3] for i in range(5)]
    alone = [asyncio.run(talk(text)) for text in texts[:4]]
    assert asyncio.run(together(texts))[:4] == alone


def test_calls_are_parsed_and_go_back_through_the_template(policy):
    text = "<tool_call>\n<function=submit>\n<parameter=sql>\nSELECT 1 <\n</parameter>\n"
    text += "</function>\n</tool_call>"
    turn = greedy([1, 2], 100)
    turn.reply, turn.stopped = policy.tokenizer.encode(text + "<|im_end|>"), True
    reply = policy.reply(turn, TOOL_SCHEMAS)
    assert (reply.finish_reason, reply.truncated, reply.content) == ("tool_calls", False, "")
    assert json.loads(reply.tool_calls[0].arguments) == {"sql": "SELECT 1 <"}
    history = policy.encode([{"role": "user", "content": "q"}, reply.message], TOOL_SCHEMAS)
    opening = prompt(policy, "q")
    assert history[: len(opening) + len(turn.reply)] == opening + turn.reply


def test_a_reply_at_the_token_limit_says_that_it_was_cut(policy):
    messages = [{"role": "user", "content": QUESTIONS[0]}]
    reply = asyncio.run(policy.complete(messages, [], Sampling(max_tokens=2)))
    assert (reply.truncated, reply.finish_reason, reply.completion_tokens) == (True, "length", 2)


def test_a_conversation_beyond_the_context_is_refused(policy):
    messages = [{"role": "user", "content": "x" * 4000}]
    with pytest.raises(ContextOverflow):
        asyncio.run(policy.complete(messages, TOOL_SCHEMAS, Sampling()))


def test_a_failure_while_generating_reaches_every_waiting_rollout(folder):
    policy = LocalPolicy(folder, threads=1)
    forward = policy.model.forward

    def fail(*args, **kwargs):
        raise RuntimeError("out of memory")

    async def ask():
        return await policy.complete([{"role": "user", "content": "x"}], [], Sampling(max_tokens=3))

    async def ask_twice():
        return await asyncio.gather(ask(), ask(), return_exceptions=True)

    policy.model.forward = fail
    errors = asyncio.run(ask_twice())
    assert [type(error) for error in errors] == [InfrastructureError] * 2
    assert "out of memory" in str(errors[0])
    policy.model.forward = forward
    assert asyncio.run(ask()).completion_tokens > 0
    asyncio.run(policy.close())
    with pytest.raises(InfrastructureError):
        asyncio.run(ask())


def test_the_policy_names_its_revision(policy, folder):
    assert policy.info.revision == directory_revision(folder)


def test_a_folder_without_a_model_is_refused_in_one_sentence(tmp_path, folder):
    with pytest.raises(Text2SqlError, match=r"no config\.json"):
        LocalPolicy(tmp_path / "missing")
    (tmp_path / "config.json").write_text('{"model_type": "no-such-model"}')
    with pytest.raises(Text2SqlError, match="it has no weights"):
        LocalPolicy(tmp_path)


WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"


def lacking_a_shard(folder):
    (folder / WEIGHTS).rename(folder / "model-00001-of-00002.safetensors")
    names = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    (folder / INDEX).write_text(json.dumps({"weight_map": names}))


def without_end(folder):
    (folder / "generation_config.json").unlink()
    for name in ("config.json", "tokenizer_config.json"):
        settings = json.loads((folder / name).read_text())
        settings.pop("eos_token", None)
        settings.pop("eos_token_id", None)
        (folder / name).write_text(json.dumps(settings))


def with_more_layers(folder):
    settings = json.loads((folder / "config.json").read_text()) | {"num_hidden_layers": 3}
    (folder / "config.json").write_text(json.dumps(settings | {"layer_types": None}))


def not_finite(folder):
    from safetensors.torch import load_file, save_file

    weights = {name: value * math.nan for name, value in load_file(folder / WEIGHTS).items()}
    save_file(weights, folder / WEIGHTS, {"format": "pt"})


DAMAGES = [
    (lambda f: os.truncate(f / WEIGHTS, 5000), "is 5000 bytes long; its header says"),
    (lambda f: (f / WEIGHTS).write_bytes(bytes(5000)), "cannot be read as safetensors"),
    (lambda f: (f / WEIGHTS).write_text("version https://git-lfs.github.com/spec"), "git lfs pull"),
    (lambda f: (f / WEIGHTS).rename(f / "model-00001-of-00002.safetensors"), "but neither model"),
    (lambda f: (f / WEIGHTS).rename(f / "adapter_model.safetensors"), "an adapter's weights"),
    (lambda f: (f / INDEX).write_text('{"weight_map": []}'), "does not map tensors to files"),
    (lambda f: (f / "config.json").write_text("["), r"config\.json cannot be read as JSON"),
    (lambda f: (f / "tokenizer.json").write_text("{"), "The tokenizer in .* could not be loaded"),
    (lambda f: [file.unlink() for file in f.glob("tokenizer*")], "has no tokenizer"),
    (lambda f: (f / "chat_template.jinja").unlink(), "has no chat template"),
    (lacking_a_shard, "lacks model-00002-of-00002"),
    (without_end, "does not say which token ends a reply"),
    (with_more_layers, r"lacks model\.layers\.2\..*, one of 11 tensors"),
    (not_finite, "not finite numbers"),
]


@pytest.mark.parametrize(("harm", "said"), DAMAGES, ids=[said for _, said in DAMAGES])
def test_a_damaged_model_is_refused_in_one_sentence(tmp_path, folder, harm, said):
    shutil.copytree(folder, tmp_path / "model")
    harm(tmp_path / "model")
    with pytest.raises(Text2SqlError, match=said) as refusal:
        LocalPolicy(tmp_path / "model")
    assert "\n" not in str(refusal.value) and str(tmp_path) in str(refusal.value)


def test_a_chat_template_that_cannot_write_a_conversation_is_named(tmp_path, folder):
    shutil.copytree(folder, tmp_path / "model")
    (tmp_path / "model" / "chat_template.jinja").write_text("{{ raise_exception('No tools.') }}")
    policy = LocalPolicy(tmp_path / "model")
    with pytest.raises(Text2SqlError, match=r"template of model .* \(No tools\.\): use"):
        policy.encode([{"role": "user", "content": "?"}], [])
    asyncio.run(policy.close())


def test_without_torch_the_extra_is_named(folder):
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "from text2sql.errors import Text2SqlError\n"
        "from text2sql.policy.local.policy import LocalPolicy\n"
        f"try: LocalPolicy({str(folder)!r})\n"
        "except Text2SqlError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "[local]" in done.stdout, done.stderr
