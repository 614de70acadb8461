"""Images with text, speech to text, and log-mel features."""

from pathlib import Path

import numpy as np
import pytest

from executorch_c.llm import EncoderDecoder, MultimodalRunner, TextRunner
from executorch_c.llm.features import log_mel, mel_filters
from tests.at_once import run_each
from tests.llm import small_llm
from tests.llm.small_llm import CONTEXT, ids
from tests.llm.small_multimodal import FRAMES, MELS, PATCHES, SIDE, eager_image, eager_speech
from tests.llm.small_multimodal import program

LIMIT = 1e-5
RNG = np.random.default_rng(0)
IMAGE = RNG.standard_normal((1, 3, SIDE, SIDE)).astype(np.float32)
FEATURES = RNG.standard_normal((1, MELS, FRAMES)).astype(np.float32)


def test_images_and_text() -> None:
    runner = MultimodalRunner(program("image"))
    for parts in ([IMAGE, ids(5)], [ids(3), IMAGE, ids(4)], [ids(2), IMAGE, IMAGE]):
        runner.reset()
        result = runner.prefill(parts)
        np.testing.assert_allclose(result, eager_image(parts), atol=LIMIT)
        assert runner.position == sum(
            PATCHES if isinstance(p, np.ndarray) else len(p) for p in parts
        )
    runner.reset()
    np.testing.assert_allclose(runner.prefill(ids(20)), eager_image([ids(20)]), atol=LIMIT)


def test_generation_after_an_image() -> None:
    runner = MultimodalRunner(program("image"))
    result = runner.generate([IMAGE[0], ids(5)], max_new_tokens=6, ignore_eos=True)
    known: list[object] = [IMAGE, ids(5)]
    for token in result.ids:
        assert token == int(eager_image(known).argmax())
        known.append([token])
    fork = runner.fork()
    more = [one.generate(max_new_tokens=3, ignore_eos=True).ids for one in (runner, fork)]
    assert more[0] == more[1]
    assert runner.ids[:PATCHES] == [9] * PATCHES, "vision_token_id in the place of the image"


def test_a_mixed_prompt_is_appended_as_a_whole() -> None:
    """A second thread waits for the end of a generation, which begins with an image."""
    runner = MultimodalRunner(program("image"))
    turns: dict[int, list[int]] = {}

    def run(i: int) -> None:
        prompt = ids(3, seed=i)
        result = runner.generate([ids(1), IMAGE, prompt], max_new_tokens=3, ignore_eos=True)
        turns[i] = [*ids(1), *[9] * PATCHES, *prompt, *result.ids]

    run_each(2, run)
    whole = [*runner.ids, *runner.pending]
    assert whole in ([*turns[0], *turns[1]], [*turns[1], *turns[0]])


def test_layouts_and_errors_of_images() -> None:
    runner = MultimodalRunner(program("image"))
    first = runner.encode_array(IMAGE)
    for same in (IMAGE[0], IMAGE[0].transpose(1, 2, 0), IMAGE.astype(np.float64)):
        np.testing.assert_allclose(runner.encode_array(same), first, atol=1e-6)
    with pytest.raises(ValueError, match=r"found an array of shape \(1, 3, 9, 8\), expected"):
        runner.encode_array(np.zeros((1, 3, 9, 8), np.float32))
    with pytest.raises(TypeError, match="found dtype uint8, expected float32; preprocess"):
        runner.encode_array(np.zeros((1, 3, 8, 8), np.uint8))
    with pytest.raises(ValueError, match="exceed the context"):
        runner.prefill([IMAGE, ids(CONTEXT)])
    with pytest.raises(ValueError, match="open it with executorch_c.llm.MultimodalRunner"):
        TextRunner(program("image"))
    with pytest.raises(ValueError, match="open it with executorch_c.llm.EncoderDecoder"):
        TextRunner(program("speech"))
    with pytest.raises(ValueError, match="no method 'encoder'"):
        EncoderDecoder(program("image"))
    with pytest.raises(ValueError, match="no method 'text_decoder'"):
        MultimodalRunner(small_llm.program())


def test_text_and_images(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    runner = MultimodalRunner(program("image"), small_llm.tokenizer_json(tmp_path))
    stream = runner.stream(["The", IMAGE, " fox"], max_new_tokens=4, ignore_eos=True)
    assert "".join(stream) == stream.result.text
    assert runner.ids[0] == 1 and runner.ids.count(1) == 1, "one BOS, at the beginning"


def test_speech() -> None:
    runner = EncoderDecoder(program("speech"))
    runner.encode_input(FEATURES)
    assert runner.start_ids == [1]
    result = runner.generate(runner.start_ids, max_new_tokens=8, ignore_eos=True)
    known = [1]
    for token in result.ids:
        assert token == int(eager_speech(FEATURES, known).argmax())
        known.append(token)
    audio = RNG.uniform(-1, 1, 1000).astype(np.float32)
    first = runner.transcribe(audio, max_new_tokens=5, ignore_eos=True)
    features = runner.features(audio)
    assert features.shape == (1, MELS, FRAMES)
    assert first.ids[0] == int(eager_speech(features, [1]).argmax())
    with pytest.raises(ValueError, match="call encode_input"):
        EncoderDecoder(program("speech")).generate([1])
    with pytest.raises(ValueError, match=r"found shape \(1, 6, 13\)"):
        runner.encode_input(np.zeros((1, MELS, FRAMES + 1), np.float32))
    with pytest.raises(TypeError, match="found dtype int64"):
        runner.encode_input(np.zeros((1, MELS, FRAMES), np.int64))


@pytest.mark.parametrize("n_mels", [80, 128])
@pytest.mark.parametrize("samples", [0, 1, 5_000, 200_000, 480_000, 500_000])
def test_features_are_whispers(n_mels: int, samples: int) -> None:
    transformers = pytest.importorskip("transformers")
    extractor = transformers.WhisperFeatureExtractor(feature_size=n_mels)
    audio = (RNG.standard_normal(samples) * 0.1).astype(np.float32)
    expected = extractor(audio, sampling_rate=16000, return_tensors="np")["input_features"][0]
    np.testing.assert_allclose(log_mel(audio, n_mels), expected, atol=2e-5)


def test_features_are_checked() -> None:
    assert mel_filters(80).shape == (80, 201)
    quiet = (RNG.standard_normal(4000) * 1000).astype(np.int16)
    np.testing.assert_array_equal(log_mel(quiet), log_mel(quiet / 32768))
    for audio, match in (
        (np.zeros((2, 5)), "one channel"),
        (np.array(["x"]), "one channel"),
        (np.array([np.nan]), "not finite"),
    ):
        with pytest.raises(ValueError, match=match):
            log_mel(audio)
    with pytest.raises(ValueError, match="`sample_rate` is 44100, expected 16000"):
        log_mel(np.zeros(5), sample_rate=44100)


def test_the_official_names(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    from executorch_c.llm import official

    tokenizer = small_llm.tokenizer_json(tmp_path)
    runner = official.MultimodalRunner(program("image"), tokenizer)
    inputs = [
        official.make_text_input("The"),
        official.make_image_input(IMAGE[0]),
        official.make_token_input(ids(3)),
    ]
    config = official.GenerationConfig(temperature=0, max_new_tokens=5, num_bos=1)
    pieces: list[str] = []
    runner.generate(inputs, config, pieces.append)
    text = "".join(pieces)
    runner.reset()
    assert text == "The" + runner.generate_text(inputs, config)
    ours = MultimodalRunner(program("image"), tokenizer)
    result = ours.generate(["The", IMAGE, ids(3)], max_new_tokens=5)
    assert text == "The" + result.text
    runner.prefill([official.make_audio_input(IMAGE)])
    with pytest.raises(RuntimeError, match="an empty prompt"):
        runner.generate([], config)
