"""TextRunner: calls, state, generation, against eager PyTorch and step by step."""

import functools
import itertools
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import executorch_c
from executorch_c.llm import TextRunner
from tests.alone import alone
from tests.at_once import run_each
from tests.llm import small_llm
from tests.llm.small_llm import CONTEXT, EOS, KINDS, LONGEST, RING, VOCABULARY, eager, ids, program
from tests.plans import Plan, build

LIMIT = 1e-5  # logits are about 3
VARIANTS = [
    *[dict(kind=kind) for kind in KINDS],
    *[dict(kind=kind, every=True) for kind in KINDS],
    dict(kind="int8", every=True),
    dict(kind="position", positions="each", every=True),
    dict(kind="position", static=True),
    dict(kind="position", positions="each", every=True, static=True),
]


def name_of(variant: dict[str, Any]) -> str:
    return "-".join(str(k if v is True else v) for k, v in variant.items())


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("tokenizers")
    return small_llm.tokenizer_json(tmp_path_factory.mktemp("tokenizer"))


@pytest.mark.parametrize("variant", VARIANTS, ids=name_of)
def test_every_way_to_run_agrees_with_eager(variant: dict[str, Any]) -> None:
    runner = TextRunner(program(**variant))
    tokens = ids(CONTEXT)
    expected = eager(variant["kind"], tokens)
    np.testing.assert_allclose(runner.all_logits(tokens), expected, atol=LIMIT)
    assert runner.position == CONTEXT and runner.ids == tokens
    for first in (1, 5, LONGEST, LONGEST + 1, CONTEXT):
        runner.reset()
        result = runner.prefill(tokens[:first])
        np.testing.assert_allclose(result, expected[first - 1], atol=LIMIT)
        for at in range(first, min(first + 3, CONTEXT)):
            np.testing.assert_allclose(runner.step(tokens[at]), expected[at], atol=LIMIT)


def test_signatures() -> None:
    signature = TextRunner(program()).signature
    assert (signature.longest, signature.context, signature.vocabulary) == (
        LONGEST,
        CONTEXT,
        VOCABULARY,
    )
    assert signature.eos_ids == EOS and signature.bos_id == 1 and signature.has_cache
    assert signature.prefill.positions == "first" and not signature.prefill.all_logits
    each = TextRunner(program(positions="each", every=True)).signature
    assert each.prefill.positions == "each" and each.prefill.all_logits
    none = TextRunner(program("none")).signature
    assert not none.has_cache and none.context == CONTEXT
    static = TextRunner(program(static=True)).signature
    assert static.prefill.is_static and static.longest == 1


def test_metadata_of_optimum() -> None:
    runner = TextRunner(
        program(get_max_context_len=None, get_eos_ids=None, get_eos_id=7, get_max_seq_len=40)
    )
    assert runner.context == 40 and runner.eos_ids == (7,)


def test_two_methods() -> None:
    """A program with "prefill" and "decode", which share their caches."""
    runner = TextRunner(small_llm.pair())
    signature = runner.signature
    assert signature.methods == ("prefill", "decode") and signature.decode.is_static
    tokens = ids(LONGEST + 9)
    expected = eager("position", tokens)
    np.testing.assert_allclose(runner.prefill(tokens[:9]), expected[8], atol=LIMIT)
    mark, fork = runner.snapshot(), runner.fork()
    for at in range(9, 14):
        np.testing.assert_allclose(runner.step(tokens[at]), expected[at], atol=LIMIT)
    np.testing.assert_allclose(fork.step(tokens[9]), expected[9], atol=LIMIT)
    runner.restore(mark)
    np.testing.assert_allclose(runner.step(tokens[9]), expected[9], atol=LIMIT)
    runner.rewind(5)
    np.testing.assert_allclose(runner.prefill(tokens[5:]), expected[-1], atol=LIMIT)
    runner.reset()
    np.testing.assert_allclose(runner.all_logits(tokens), expected, atol=LIMIT)
    only = TextRunner(small_llm.pair(), method="decode")
    np.testing.assert_allclose(only.prefill(tokens), expected[-1], atol=LIMIT)


# ---- state -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_reset_resets_state(kind: str) -> None:
    runner = TextRunner(program(kind))
    first = runner.prefill(ids(9))
    runner.all_logits(ids(20, seed=1))
    runner.reset()
    assert runner.position == 0 and runner.ids == []
    np.testing.assert_array_equal(runner.prefill(ids(9)), first)


@pytest.mark.parametrize("kind", ["position", "ring", "none"])
def test_rewind(kind: str) -> None:
    runner = TextRunner(program(kind))
    tokens, others = ids(12), ids(5, seed=3)
    runner.prefill(tokens)
    runner.rewind(7)
    result = runner.all_logits(others)
    np.testing.assert_allclose(result, eager(kind, tokens[:7] + others)[7:], atol=LIMIT)
    assert runner.ids == tokens[:7] + others
    with pytest.raises(ValueError, match="rewind to position 13: expected 0 to 12"):
        runner.rewind(13)
    runner.rewind(0)
    np.testing.assert_allclose(runner.prefill(tokens), eager(kind, tokens)[-1], atol=LIMIT)


def test_rewind_of_a_recurrent_state_is_refused() -> None:
    runner = TextRunner(program("recurrent"))
    runner.prefill(ids(6))
    with pytest.raises(RuntimeError, match="recurrent state"):
        runner.rewind(3)
    assert runner.position == 6
    runner.rewind(6)
    runner.rewind(0)
    np.testing.assert_allclose(runner.prefill(ids(6)), eager("recurrent", ids(6))[-1], atol=LIMIT)


def test_rewind_of_a_wrapped_ring_is_refused() -> None:
    runner = TextRunner(program("ring"))
    runner.all_logits(ids(RING))
    runner.rewind(RING - 5)  # nothing is overwritten yet
    runner.all_logits(ids(6, seed=1))
    with pytest.raises(RuntimeError, match=f"ring cache of {RING} entries has wrapped"):
        runner.rewind(RING - 3)
    runner.reset()
    runner.all_logits(ids(9))
    runner.rewind(5)


@pytest.mark.parametrize("kind", KINDS)
def test_snapshots(kind: str) -> None:
    runner = TextRunner(program(kind))
    tokens, others = ids(RING + 5), ids(9, seed=3)
    runner.prefill(tokens)
    mark = runner.snapshot()
    first = runner.all_logits(others)
    runner.restore(mark)
    assert runner.position == mark.position == len(tokens)
    np.testing.assert_array_equal(runner.all_logits(others), first)
    assert (mark.nbytes > 0) == (kind != "none")
    with pytest.raises(ValueError, match="another loaded program"):
        TextRunner(program(kind)).restore(mark)


@pytest.mark.parametrize("kind", KINDS)
def test_forks_share_a_prefix(kind: str) -> None:
    runner = TextRunner(program(kind))
    prefix = ids(8)
    runner.prefill(prefix)
    forks = [runner.fork() for _ in range(2)]
    tails = [ids(4, seed=i + 1) for i in range(3)]
    for i in range(4):  # alternating
        for one, tail in zip([runner, *forks], tails):
            one.step(tail[i])
    last = ids(1, seed=9)[0]
    for one, tail in zip([runner, *forks], tails):
        whole = [*prefix, *tail, last]
        np.testing.assert_allclose(one.step(last), eager(kind, whole)[-1], atol=LIMIT)
        assert one.ids == whole


def test_forks_on_threads() -> None:
    runner = TextRunner(program("recurrent"))
    runner.prefill(ids(4))
    forks = [runner.fork() for _ in range(4)]
    outputs: list[Any] = [None] * len(forks)

    def run(i: int) -> None:
        outputs[i] = [forks[i].step(t) for t in ids(10, seed=i)][-1]

    run_each(len(forks), run)
    for i, one in enumerate(outputs):
        expected = eager("recurrent", ids(4) + ids(10, seed=i))[-1]
        np.testing.assert_allclose(one, expected, atol=LIMIT)


def test_threads_append_to_one_conversation() -> None:
    """Tokens of two threads may alternate; the caches have them in the order of `ids`."""
    runner, parts = TextRunner(program("position")), [ids(12, seed=i) for i in range(2)]

    def run(i: int) -> None:
        for at in range(0, len(parts[i]), 3):
            runner.step(parts[i][at])
            runner.prefill(parts[i][at + 1 : at + 3])

    for _ in range(5):
        runner.reset()
        run_each(len(parts), run)
        whole = runner.ids
        assert len(whole) == 24
        np.testing.assert_allclose(runner.step(1), eager("position", [*whole, 1])[-1], atol=LIMIT)


def test_a_generation_is_a_turn_of_one_thread() -> None:
    """A second thread's generation waits for the end of the first one."""
    runner = TextRunner(program("position"))
    turns: list[list[int]] = []

    def run(i: int) -> None:
        prompt = ids(3, seed=i)
        result = runner.generate(prompt, max_new_tokens=6, ignore_eos=True)
        turns.append([*prompt, *result.ids])

    run_each(3, run)
    known = [*runner.ids, *runner.pending]
    assert sorted(known[at : at + 9] for at in (0, 9, 18)) == sorted(turns)
    for at in range(len(known)):
        if at % 9 >= 3:
            assert known[at] == int(eager("position", known[:at])[-1].argmax())


def test_a_process_forked_during_a_generation() -> None:
    """The child has no thread that could end it: its conversation is refused until a reset."""
    runner = TextRunner(program())
    inside, go_on = threading.Event(), threading.Event()
    expected = eager("position", [5])[-1]  # torch's threads do not survive a fork

    def waits(logits: np.ndarray, earlier: Any) -> int:
        inside.set()
        go_on.wait(30)
        return int(logits.argmax())

    def child() -> str:
        with pytest.raises(RuntimeError, match="was using it when this process was forked") as e:
            runner.step(5)
        runner.reset()
        np.testing.assert_allclose(runner.step(5), expected, atol=LIMIT)
        return str(e.value)

    generate = functools.partial(runner.generate, [5, 6], max_new_tokens=2, sampler=waits)
    thread = threading.Thread(target=generate)
    thread.start()
    try:
        assert inside.wait(30)
        assert "reset()" in alone(child, seconds=10)
    finally:
        go_on.set()
        thread.join()
    assert runner.position == 3


def test_a_stream_ends_if_the_conversation_goes_on_elsewhere(tokenizer: Path) -> None:
    runner = TextRunner(program(), tokenizer)
    for other in (lambda: runner.step(5), runner.reset, lambda: runner.rewind(2)):
        stream = runner.stream("The fox", max_new_tokens=20, ignore_eos=True)
        next(stream)
        other()
        before = runner.ids
        with pytest.raises(RuntimeError, match="another call has changed the conversation"):
            list(stream)
        assert runner.ids == before


# ---- errors ----------------------------------------------------------------------------------


def test_tokens_are_checked_before_a_call() -> None:
    runner = TextRunner(program())
    long = f"{CONTEXT + 1} tokens at position 0 exceed .*: at most {CONTEXT} fit"
    rows: list[tuple[Any, Any, type[Exception], str]] = [
        (runner.prefill, ids(CONTEXT + 1), ValueError, long),
        (runner.forward, ids(LONGEST + 1), ValueError, f"at most {LONGEST} tokens"),
        (runner.prefill, [5, VOCABULARY], ValueError, "token id 320 is not in the vocabulary"),
        (runner.forward, [-1], ValueError, "token id -1"),
        (runner.forward, [1.5], TypeError, "expected token ids"),
        (runner.forward, np.zeros((2, 3), np.int64), TypeError, "expected token ids"),
        (runner.forward, [], ValueError, "at least 1 token"),
        (runner.prefill, [], ValueError, "at least 1 token"),
        (runner.generate, "text", ValueError, "needs a tokenizer"),
    ]
    for call, tokens, error, match in rows:
        with pytest.raises(error, match=match):
            call(tokens)
    assert runner.position == 0
    runner.prefill(ids(CONTEXT))
    with pytest.raises(ValueError, match="exceed the context"):
        runner.step(5)


@pytest.mark.parametrize(
    "options, match",
    [
        (dict(temperature=-1), "`temperature` is -1"),
        (dict(temperature=float("nan")), "`temperature` is nan"),
        (dict(temperature=float("inf")), "`temperature` is inf"),
        (dict(top_p=0), "`top_p` is 0"),
        (dict(top_p=1.5), "`top_p` is 1.5"),
        (dict(top_k=-1), "`top_k` is -1"),
        (dict(min_p=2), "`min_p` is 2"),
        (dict(repetition_penalty=0), "`repetition_penalty` is 0"),
        (dict(seed=-1), "`seed` is -1"),
        (dict(max_new_tokens=0), "`max_new_tokens` is 0"),
        (dict(logprobs=-1), "`logprobs` is -1"),
        (dict(sampler="best"), "`sampler` is 'best'"),
        (dict(sampler="official", temperature=2), "`temperature` is 2"),
        (dict(sampler="official", min_p=0.1), "`min_p` and"),
        (dict(stop="x"), "`stop` needs a tokenizer"),
        (dict(stop=""), "an empty text"),
    ],
)
def test_options_are_checked(options: dict[str, Any], match: str) -> None:
    runner = TextRunner(program())
    with pytest.raises(ValueError, match=match):
        runner.generate(ids(3), **options)
    assert runner.position == 0


@pytest.mark.parametrize(
    "name",
    "temperature top_k top_p min_p seed logprobs repetition_penalty max_new_tokens".split(),
)
def test_options_of_another_type(name: str) -> None:
    for value in ("1", [1], np.ones(2)):
        with pytest.raises(TypeError, match=f"^`{name}` must be an? (int|number), not "):
            TextRunner(program()).generate([5], **{name: value})
    with pytest.raises(TypeError, match="^`bos_id` must be an int, not str"):
        TextRunner(program(), bos_id="1")  # type: ignore[arg-type]


def test_programs_that_are_not_text_programs() -> None:
    import torch
    from tests.exports import export

    other = export(lambda x: x + 1, torch.zeros(3))
    with pytest.raises(ValueError, match="input 0 .tokens.: found a tensor of shape"):
        TextRunner(other)
    floats = export(lambda x: x + 1, torch.zeros(1, 3))
    with pytest.raises(ValueError, match="expected integers"):
        TextRunner(floats)
    with pytest.raises(ValueError, match="no method 'lora_forward'"):
        TextRunner(program(), method="lora_forward")


def with_metadata(name: str, value: Any) -> bytes:
    """A program of one call, and a method without inputs that returns a number, or zeros of a
    shape."""
    main, method = Plan(), Plan(name)
    main.input((1, 4), "int64")
    main.call("aten::full.out", [1, 4, 8], 1.0, main.output((1, 4, 8)))
    if isinstance(value, tuple):
        method.call("aten::full.out", list(value), 0, method.output(value, "uint8"))
    else:
        method.take(method.value(value))
    return build(main, method)


@pytest.mark.parametrize("name", ["get_max_seq_len", "get_eos_ids", "get_bos_id"])
@pytest.mark.parametrize("value", [float("inf"), float("nan"), -5])
def test_hostile_metadata(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=r"inf|nan|-5"):
        TextRunner(with_metadata(name, value))


def test_large_outputs_are_no_metadata() -> None:
    assert TextRunner(with_metadata("get_x", (3,))).signature.constants == {"get_x": ([0, 0, 0],)}
    assert not TextRunner(with_metadata("get_x", (1 << 21,))).signature.constants


def test_nan_is_said() -> None:
    runner = TextRunner(program(fault="nan"))
    with pytest.raises(ValueError, match="position 2: 320 of 320 logits are NaN"):
        runner.generate(ids(3))


def test_a_failed_call_leaves_a_cache_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("position", "recurrent"):
        runner = TextRunner(program(kind))
        runner.prefill(ids(5))
        inputs = runner._inputs
        monkeypatch.setattr(
            runner, "_inputs", lambda call, ids, start: [inputs(call, ids, start)[0]]
        )
        with pytest.raises(executorch_c.InvalidArgumentError):
            runner.step(7)
        monkeypatch.undo()
        assert runner.position == 5
        if kind == "recurrent":
            with pytest.raises(RuntimeError, match="the state is not defined"):
                runner.step(7)
            runner.reset()
            runner.prefill(ids(5))
        result = runner.step(7)
        np.testing.assert_allclose(result, eager(kind, [*ids(5), 7])[-1], atol=LIMIT)


# ---- generation ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_greedy_is_the_step_loop(kind: str) -> None:
    runner = TextRunner(program(kind))
    prompt = ids(6)
    result = runner.generate(prompt, max_new_tokens=20, ignore_eos=True, logprobs=3)
    known = list(prompt)
    for token, logprob, top in zip(result.ids, result.logprobs, result.top_logprobs):
        row = eager(kind, known)[-1].astype(np.float64)
        p = row - np.log(np.exp(row).sum())
        assert token == int(row.argmax()) == top[0][0]
        assert logprob == pytest.approx(p[token], abs=1e-5) == top[0][1]
        assert [one for one, _ in top] == np.argsort(-row, kind="stable")[:3].tolist()
        known.append(token)
    assert result.finish_reason == "length" and len(result.ids) == 20
    assert runner.ids == known[:-1] and runner.pending == (known[-1],)
    stats = result.stats
    assert (stats.prompt_tokens, stats.generated_tokens) == (6, 20)
    assert 0 < stats.first_token_seconds <= stats.total_seconds
    assert stats.prefill_seconds + stats.decode_seconds <= stats.total_seconds


def test_a_generation_goes_on_with_the_pending_token() -> None:
    runner, other = TextRunner(program()), TextRunner(program())
    first = runner.generate(ids(6), max_new_tokens=5, ignore_eos=True)
    second = runner.generate(max_new_tokens=5, ignore_eos=True)
    third = runner.generate(ids(3, seed=2), max_new_tokens=5, ignore_eos=True)
    whole = other.generate(ids(6), max_new_tokens=10, ignore_eos=True)
    assert first.ids + second.ids == whole.ids
    assert third.ids == other.generate(ids(3, seed=2), max_new_tokens=5, ignore_eos=True).ids


def test_the_end_of_the_context() -> None:
    runner = TextRunner(program())
    result = runner.generate(ids(CONTEXT - 3), ignore_eos=True)
    assert result.finish_reason == "context" and len(result.ids) == 4
    assert runner.position == CONTEXT


def test_eos() -> None:
    runner = TextRunner(program())
    free = runner.generate(ids(6), max_new_tokens=12, ignore_eos=True)
    end = free.ids[5]
    runner = TextRunner(program(), eos_ids=[end])
    result = runner.generate(ids(6), max_new_tokens=12)
    assert result.finish_reason == "eos" and result.ids == free.ids[: free.ids.index(end) + 1]
    with pytest.raises(ValueError, match="`eos_ids`: 999 is not in the vocabulary"):
        TextRunner(program(), eos_ids=[999])


def test_seeds() -> None:
    runner, texts = TextRunner(program()), []
    for seed in (1, 1, 2):
        runner.reset()
        result = runner.generate(ids(5), max_new_tokens=20, temperature=1.0, seed=seed)
        texts.append(result.ids)
    assert texts[0] == texts[1] != texts[2]


def test_a_sampler_of_the_caller() -> None:
    seen = []

    def least(logits: np.ndarray, earlier: Any) -> int:
        seen.append(list(earlier))
        return int(logits.argmin())

    runner = TextRunner(program())
    result = runner.generate([5, 6], max_new_tokens=3, sampler=least)
    assert seen == [[5, 6, *result.ids[:i]] for i in range(3)]
    with pytest.raises(ValueError, match="the sampler chose token 999"):
        runner.generate([5], sampler=lambda logits, earlier: 999)


def test_streams_and_callbacks(tokenizer: Path) -> None:
    runner = TextRunner(program(), tokenizer)
    stream = runner.stream("The fox", max_new_tokens=20, ignore_eos=True)
    pieces = list(stream)
    assert "".join(pieces) == stream.result.text
    expected = runner.tokenizer.decode(stream.result.ids)
    assert stream.result.text == expected
    runner.reset()
    kept: list[str] = []
    result = runner.generate("The fox", max_new_tokens=20, ignore_eos=True, callback=kept.append)
    assert kept == pieces and result.ids == stream.result.ids and str(result) == expected


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_a_callback_that_raises(tokenizer: Path, error: type[BaseException]) -> None:
    runner = TextRunner(program(), tokenizer)

    def fails(piece: str) -> None:
        raise error

    with pytest.raises(error):
        runner.generate("The fox", max_new_tokens=20, ignore_eos=True, callback=fails)
    known = [*runner.ids, *runner.pending]
    assert len(known) > runner.position > 0
    result = runner.prefill(ids(2))
    np.testing.assert_allclose(result, eager("position", known + ids(2))[-1], atol=LIMIT)


def test_stop_and_close(tokenizer: Path) -> None:
    runner = TextRunner(program(), tokenizer)
    result = runner.generate("The fox", ignore_eos=True, callback=lambda piece: runner.stop())
    assert result.finish_reason == "cancelled" and len(result.ids) < 6
    stream = runner.stream("The fox", ignore_eos=True, max_new_tokens=20)
    for _ in itertools.islice(stream, 2):
        pass
    stream.close()
    assert stream.result.finish_reason == "cancelled"
    assert list(stream) == []
    runner.generate(max_new_tokens=2)


def test_stop_texts(tokenizer: Path) -> None:
    runner = TextRunner(program(), tokenizer)
    whole = runner.generate("The fox", max_new_tokens=30, ignore_eos=True).text
    for stop in (whole[5:8], whole[3:4], ["no such text", whole[9:12]]):
        runner.reset()
        kept: list[str] = []
        result = runner.generate(
            "The fox", max_new_tokens=30, ignore_eos=True, stop=stop, callback=kept.append
        )
        texts = [stop] if isinstance(stop, str) else stop
        end = min(at for at in (whole.find(text) for text in texts) if at >= 0)
        assert result.text == "".join(kept) == whole[:end]
        assert result.finish_reason == "stop"


def test_a_tokenizer_that_is_too_large(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    large = small_llm.tokenizer_json(tmp_path, special=[f"<{i}>" for i in range(80)], bos=False)
    with pytest.raises(ValueError, match="tokens, the program 320 logits: they do not belong"):
        TextRunner(program(), large)


def test_conflicts_are_said(tokenizer: Path) -> None:
    runner = TextRunner(program(get_eos_ids=[9], get_bos_id=4), tokenizer)
    assert len(runner.conflicts) == 2
    assert "EOS is 9 in the program's metadata and 2" in runner.conflicts[0]
    assert "BOS is 4 in the program's metadata and 1" in runner.conflicts[1]
    assert runner.eos_ids == (9,)
    assert TextRunner(program(), tokenizer).conflicts == ()


def test_bos_only_at_the_beginning(tokenizer: Path) -> None:
    runner = TextRunner(program(), tokenizer)
    assert runner.encode("fox")[0] == 1 and runner.encode("fox", bos=False)[0] != 1
    runner.prefill("The")
    assert runner.encode("fox")[0] != 1 and runner.encode("fox", bos=True)[0] == 1


def test_logits_of_coarser_dtypes() -> None:
    import ml_dtypes
    from executorch_c.llm.runner import as_float32

    values = np.array([1.5, -2.25, np.inf, 3e38], np.float32)
    coarse = values.astype(ml_dtypes.bfloat16)
    for arguments in (coarse, coarse.view(np.uint16)):  # the bits, without the package
        result = as_float32(arguments)
        assert result.dtype == np.float32
        np.testing.assert_array_equal(result, coarse.astype(np.float32))
    half = as_float32(values[:2].astype(np.float16))
    assert half.dtype == np.float32 and half.tolist() == [1.5, -2.25]
