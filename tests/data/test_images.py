"""Images of every mode and size become the same bytes of pixels that Pillow would give, or a named fault."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image, JpegImagePlugin

from advshift.data.images import CorruptImageError, View, decode, decode_window, image_size
from advshift.errors import InputError

VIEW = View(16, 16, True)


def _encoded(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def _smooth(height: int, width: int) -> np.ndarray:
    y, x = np.mgrid[0:height, 0:width]
    planes = (y * 255 / height, x * 255 / width, (x + y) * 255 / (height + width))
    return np.stack(planes, 2).astype(np.uint8)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "I;16"])
@pytest.mark.parametrize("grey", [False, True])
def test_every_mode(mode: str, grey: bool) -> None:
    colours = Image.fromarray(_smooth(24, 24))
    if mode == "I;16":
        image = Image.fromarray(np.asarray(colours.convert("L")).astype(np.uint16) * 257)
        expected = colours.convert("L")
    else:
        image = colours.convert(mode)
        expected = image.convert("RGB")
    kind = "TIFF" if mode in ("CMYK", "YCbCr") else "PNG"
    found = decode(_encoded(image, kind), View(24, 24, False, grey=grey))
    assert found.shape == (24, 24, 1 if grey else 3)
    reference = np.asarray(expected.convert("L" if grey else "RGB")).reshape(found.shape)
    assert np.abs(found.astype(int) - reference.astype(int)).max() <= 1


def test_16_bits_are_scaled_not_cut_off() -> None:
    values = np.linspace(0, 65535, 256).astype(np.uint16).reshape(16, 16)
    found = decode(_encoded(Image.fromarray(values)), View(16, 16, False, grey=True))
    assert found[..., 0].ravel().tolist() == list(range(256))


def test_a_palette_with_transparency_keeps_its_colours() -> None:
    image = Image.fromarray(np.array([[0, 1], [1, 0]], np.uint8), "P")
    image.putpalette([255, 0, 0, 0, 0, 255])
    found = decode(_encoded(image, transparency=bytes([0, 128])), View(2, 2, False))
    assert found.tolist() == [[[255, 0, 0], [0, 0, 255]], [[0, 0, 255], [255, 0, 0]]]


def test_cmyk_jpeg() -> None:
    image = Image.new("CMYK", (16, 16), (0, 255, 255, 0))
    found = decode(_encoded(image, "JPEG", quality=100), View(16, 16, False))
    assert np.abs(found.reshape(-1, 3).astype(int) - (255, 0, 0)).max() < 30


@pytest.mark.parametrize(("height", "width"), [(16, 16), (40, 20), (20, 40), (7, 5), (1, 1), (300, 301)])
@pytest.mark.parametrize("fit", ["crop", "stretch", "pad"])
def test_every_size(height: int, width: int, fit: Any) -> None:
    found = decode(_encoded(Image.fromarray(_smooth(height, width))), VIEW._replace(fit=fit, share=0.875))
    assert found.shape == (16, 16, 3)


def test_the_crop_is_the_middle() -> None:
    """Against Pillow's own crop and resize in two steps."""
    image = Image.fromarray(_smooth(40, 60))
    found = decode(_encoded(image), VIEW._replace(share=0.8))
    expected = image.crop((14, 4, 46, 36)).resize((16, 16), Image.Resampling.BILINEAR)
    assert np.abs(found.astype(int) - np.asarray(expected).astype(int)).max() <= 2


def test_stretch_sees_all_and_pad_keeps_the_shape() -> None:
    pixels = np.full((20, 40), 200, np.uint8)
    pixels[:, :3] = 0  # the left edge is dark; most of the border is light
    raw = _encoded(Image.fromarray(pixels))
    stretched = decode(raw, VIEW._replace(fit="stretch", grey=True))[..., 0]
    assert stretched[8, 0] < 50
    padded = decode(raw, VIEW._replace(fit="pad", grey=True))[..., 0]
    assert padded[8, 0] < 50  # the middle rows hold the image
    assert padded[0, 0] == 200  # above it stands the median of its border
    cropped = decode(raw, VIEW._replace(grey=True))[..., 0]
    assert cropped.min() == 200


def test_a_large_jpeg_is_decoded_at_a_part_of_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    image = Image.fromarray(_smooth(512, 768))
    raw = _encoded(image, "JPEG", quality=95)
    draft = JpegImagePlugin.JpegImageFile.draft

    def spy(self: Any, mode: Any, size: Any) -> Any:
        result = draft(self, mode, size)
        seen.append(self.size)
        return result

    monkeypatch.setattr(JpegImagePlugin.JpegImageFile, "draft", spy)
    found = decode(raw, View(32, 32, True))
    assert seen == [(96, 64)]  # an eighth
    whole = image.crop((128, 0, 640, 512)).resize((32, 32), Image.Resampling.BILINEAR)
    assert np.abs(found.astype(int) - np.asarray(whole).astype(int)).max() <= 8


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_random_windows_by_hand(kind: str) -> None:
    """On an image whose colours are its coordinates, the window can be read off."""
    raw = _encoded(Image.fromarray(_smooth(200, 400)), kind, **({"quality": 100} if kind == "JPEG" else {}))
    rng = np.random.default_rng(0)
    for _ in range(20):
        draws = rng.random(5).tolist()
        found = decode_window(raw, View(20, 20, True), draws, flip=True).astype(float)
        area = (0.08 + 0.92 * draws[0]) * 200 * 400
        aspect = (3 / 4) * (16 / 9) ** draws[1]
        width, height = min(np.sqrt(area * aspect), 400), min(np.sqrt(area / aspect), 200)
        left, top = draws[2] * (400 - width), draws[3] * (200 - height)
        if draws[4] < 0.5:
            found = found[:, ::-1]
        assert found[10, 10, 0] == pytest.approx((top + height * 10.5 / 20) * 255 / 200, abs=6)
        assert found[10, 10, 1] == pytest.approx((left + width * 10.5 / 20) * 255 / 400, abs=6)
        assert found[15, 10, 0] - found[5, 10, 0] == pytest.approx(height / 2 * 255 / 200, abs=6)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"no image",
        _encoded(Image.new("RGB", (50, 50)))[:60],
        _encoded(Image.fromarray(_smooth(64, 64)), "JPEG")[:500],
        _encoded(Image.fromarray(np.zeros((4, 4), np.float32)), "TIFF"),
    ],
)
def test_what_cannot_be_decoded(raw: bytes) -> None:
    with pytest.raises(CorruptImageError) as caught:
        decode(raw, VIEW)
    assert str(caught.value)
    assert "\n" not in str(caught.value)
    assert "0x" not in str(caught.value)


def test_the_wrong_size_says_what_to_set() -> None:
    with pytest.raises(InputError, match=r"20×10 pixels, the first image 16×16; set data\.image_size"):
        decode(_encoded(Image.new("L", (20, 10))), View(16, 16, False))


def test_the_head_tells_the_size() -> None:
    assert image_size(_encoded(Image.new("L", (20, 10)))) == (10, 20)
