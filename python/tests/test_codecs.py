"""Images of every codec against Pillow: the same pixels, or a refusal that names the format."""

from __future__ import annotations

import io
import struct

import feedline as fl
import numpy as np
import pytest
from pictures import picture
from PIL import Image, ImageOps

SIZES = [(1, 1), (7, 5), (64, 48), (131, 67)]


def decoded(data, folder):
    ds = fl.pack([{"image": data}], folder, schema={"image": "image"}, image="as-is", progress=False, overwrite=True)
    return ds.decoded()[0]["image"]


def pillow(data):
    return np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB"))


def photo(mode, size):
    image = Image.fromarray(picture(3, *size))
    return image.convert("RGB").convert(mode) if mode != "YCbCr" else image.convert("YCbCr")


def saved(image, kind, **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


BILEVEL = ["group3", "group4", "tiff_ccitt"]
GENERAL = ["raw", "packbits", "tiff_lzw", "tiff_adobe_deflate", "tiff_deflate", "lzma", "zstd"]
MODES = ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK"]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("mode", "compression"),
    [*((mode, each) for mode in MODES for each in GENERAL), *(("1", each) for each in BILEVEL), ("YCbCr", "raw")],
)
def test_tiff_as_pillow_writes_and_reads_it(tmp_path, mode, compression, size):
    data = saved(photo(mode, size), "TIFF", compression=compression)
    np.testing.assert_array_equal(decoded(data, tmp_path / "pack"), pillow(data))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_jpeg_inside_tiff(tmp_path, mode, size):
    data = saved(photo(mode, size), "TIFF", compression="jpeg")
    np.testing.assert_array_equal(decoded(data, tmp_path / "pack"), pillow(data))


def tiff(pixels, *, big_endian=False, large=False, planes=False, tile=None, extra=None, photometric=2, **tags):
    """A TIFF of raw samples, written here: what Pillow cannot write."""
    height, width, samples = pixels.shape
    order = ">" if big_endian else "<"
    pixels = pixels.astype(pixels.dtype.newbyteorder(order))
    parts = [pixels[..., at : at + 1] for at in range(samples)] if planes else [pixels]
    chunks = []
    for part in parts:
        if tile is None:
            chunks += [part[y : y + 3].tobytes() for y in range(0, height, 3)]
            continue
        for y in range(0, height, tile):
            for x in range(0, width, tile):
                padded = np.zeros((tile, tile, part.shape[2]), part.dtype)
                piece = part[y : y + tile, x : x + tile]
                padded[: piece.shape[0], : piece.shape[1]] = piece
                chunks.append(padded.tobytes())
    head = 16 if large else 8
    offsets = [head + sum(map(len, chunks[:at])) for at in range(len(chunks))]
    kinds = {"u": 1, "i": 2, "f": 3}
    values = {256: [width], 257: [height], 258: [pixels.itemsize * 8] * samples, 259: [1], 262: [photometric]}
    values |= {277: [samples], 284: [2 if planes else 1], 339: [kinds[pixels.dtype.kind]] * samples}
    values |= {322: [tile], 323: [tile], 324: offsets, 325: list(map(len, chunks))} if tile else {}
    values |= {} if tile else {273: offsets, 278: [3], 279: list(map(len, chunks))}
    values |= {338: extra} if extra else {}
    values |= {int(tag): given for tag, given in tags.items()}
    return directory(order, large, head, b"".join(chunks), values)


def directory(order, large, head, data, values):
    """The file: header, chunks, long lists, tags."""
    out = bytearray(data)
    entries = []
    for tag, numbers in sorted(values.items()):
        kind, letter, size = (16, "Q", 8) if large else (4, "I", 4)
        packed = struct.pack(f"{order}{len(numbers)}{letter}", *numbers)
        if len(packed) > size:
            packed, at = b"", (head + len(out))
            out += struct.pack(f"{order}{len(numbers)}{letter}", *numbers)
            packed = struct.pack(f"{order}{letter}", at)
        form = f"{order}HHQ" if large else f"{order}HHI"
        entries.append(struct.pack(form, tag, kind, len(numbers)) + packed.ljust(size, b"\0"))
    start = head + len(out)
    mark = b"II" if order == "<" else b"MM"
    first = struct.pack(f"{order}HHHQ", 43, 8, 0, start) if large else struct.pack(f"{order}HI", 42, start)
    count = struct.pack(f"{order}Q" if large else f"{order}H", len(entries))
    return mark + first + bytes(out) + count + b"".join(entries) + bytes(8)


@pytest.mark.parametrize("big_endian", [False, True])
@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("shape", [{}, {"tile": 16}, {"planes": True}, {"planes": True, "tile": 32}])
def test_tiff_strips_tiles_and_planes(tmp_path, shape, large, big_endian):
    pixels = picture(5, 53, 41)
    data = tiff(pixels, big_endian=big_endian, large=large, **shape)
    np.testing.assert_array_equal(decoded(data, tmp_path / "pack"), pixels)


def test_tiff_fill_order_and_unstated_extra_samples(tmp_path):
    pixels = picture(6, 19, 9)
    reversed_bits = np.unpackbits(pixels, bitorder="little").reshape(-1, 8)
    turned = np.packbits(reversed_bits, axis=1).reshape(pixels.shape)
    np.testing.assert_array_equal(decoded(tiff(turned, **{"266": [2]}), tmp_path / "a"), pixels)
    four = np.concatenate([pixels, np.full((9, 19, 1), 7, np.uint8)], axis=2)
    np.testing.assert_array_equal(decoded(tiff(four, extra=[0]), tmp_path / "b"), pixels)


def test_tiff_of_more_bits(tmp_path):
    """Sixteen bits keep the upper eight; floats and wide numbers are clipped, as in Pillow."""
    pixels = picture(7, 23, 11)
    wide = pixels.astype(np.uint16) * 257
    np.testing.assert_array_equal(decoded(tiff(wide, big_endian=True), tmp_path / "a"), pixels)
    floats = pixels[..., :1].astype(np.float32) * 2 - 100
    data = tiff(floats, photometric=1)
    np.testing.assert_array_equal(decoded(data, tmp_path / "b"), pillow(data))
    numbers = pixels[..., :1].astype(np.int32) * 3 - 200
    data = tiff(numbers, photometric=1)
    np.testing.assert_array_equal(decoded(data, tmp_path / "c"), pillow(data))


def test_a_tiff_cut_anywhere_is_an_error(tmp_path):
    data = saved(photo("RGB", (31, 17)), "TIFF", compression="tiff_lzw")
    for cut in range(8, len(data), 97):
        with pytest.raises(fl.SampleError):
            decoded(data[:cut], tmp_path / "pack")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("mode", ["1", "L", "RGB"])
def test_portable_maps(tmp_path, mode, size):
    data = saved(photo(mode, size), "PPM")
    np.testing.assert_array_equal(decoded(data, tmp_path / "pack"), pillow(data))


@pytest.mark.parametrize(
    "data",
    [
        b"P1\n3 2\n101\n010\n",
        b"P2 # grey\n2 2\n7\n0 3 5 7",
        b"P3 1 2 100 0 50 100 1 2 3",
        b"P6 1 1 1000 \x03\xe8\x00\x00\x01\xf4",
        b"P5 3 1 77 \x00\x26\x4d",
    ],
)
def test_plain_and_scaled_maps(tmp_path, data):
    np.testing.assert_array_equal(decoded(data, tmp_path / "pack"), pillow(data))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_qoi(tmp_path, mode, size):
    data = saved(photo(mode, size), "QOI")
    np.testing.assert_array_equal(decoded(data, tmp_path / "pack"), pillow(data))


def text_chunk(kind, keyword, text):
    import zlib

    body = keyword + b"\0" + (b"\0" + zlib.compress(text) if kind == b"zTXt" else text)
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


@pytest.mark.parametrize("kind", [b"tEXt", b"zTXt"])
@pytest.mark.parametrize("keyword", [b"exif", b"APP1"])
def test_png_orientation_in_a_text_profile(tmp_path, keyword, kind):
    """ImageMagick and GIMP write EXIF as hexadecimal text."""
    image = photo("RGB", (20, 10))
    exif = Image.Exif()
    exif[0x112] = 6
    digits = exif.tobytes().hex().encode()
    lines = b"\n".join(digits[at : at + 72] for at in range(0, len(digits), 72))
    text = b"\n" + keyword.lower() + b"\n" + str(len(digits) // 2).rjust(8).encode() + b"\n" + lines + b"\n"
    data = saved(image, "PNG")
    data = data[:33] + text_chunk(kind, b"Raw profile type " + keyword, text) + data[33:]
    assert decoded(data, tmp_path / "pack").shape == (20, 10, 3)


def test_a_damaged_animation_does_not_spoil_the_still_image(tmp_path):
    frames = [photo("RGB", (16, 12)), photo("L", (16, 12)).convert("RGB")]
    data = saved(frames[0], "PNG", save_all=True, append_images=frames[1:])
    assert b"fdAT" in data
    at = data.rindex(b"fcTL")
    wrong = data[: at + 4] + b"\0\0\0\x63" + data[at + 8 :]
    np.testing.assert_array_equal(decoded(wrong, tmp_path / "pack"), np.asarray(frames[0]))


def test_bitmaps_whose_pixels_begin_at_their_palette(tmp_path):
    data = bytearray(saved(photo("P", (9, 5)), "BMP"))
    data[10:14] = struct.pack("<I", 54)
    np.testing.assert_array_equal(decoded(bytes(data), tmp_path / "pack"), pillow(bytes(data)))


def test_gif_without_a_palette(tmp_path):
    """Indices are greys, as in Pillow."""
    data = bytearray(saved(photo("L", (20, 10)), "GIF"))
    flags = data[10]
    length = 3 * (2 << (flags & 7))
    bare = bytes(data[:10]) + bytes([flags & 0x7F]) + bytes(data[11:13]) + bytes(data[13 + length :])
    np.testing.assert_array_equal(decoded(bare, tmp_path / "pack"), pillow(bare))


def test_errors_say_where(tmp_path):
    """The byte at which a decoder stopped, in plain words."""
    data = bytearray(saved(photo("RGB", (64, 48)), "PNG"))
    data[200] ^= 0xFF
    with pytest.raises(fl.SampleError, match=r"corrupt png at byte \d{3,}: (the checksum|the compressed)") as found:
        decoded(bytes(data), tmp_path / "pack")
    assert "ChunkType" not in str(found.value)
    with pytest.raises(fl.SampleError, match="the file ends at byte 100"):
        decoded(bytes(data[:100]), tmp_path / "cut")


@pytest.mark.parametrize(
    ("start", "name"),
    [
        (b"\0\0\0\x1cftypavif\0\0\0\0mif1avif", "AVIF"),
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "HEIC"),
        (b"\xff\x0a", "JPEG XL"),
        (b"\0\0\0\x0cjP  \r\n\x87\n", "JPEG 2000"),
        (b"%PDF-1.7", "PDF"),
    ],
)
def test_refused_formats_are_named(tmp_path, start, name):
    with pytest.raises(fl.SampleError, match=f"unsupported {name}"):
        decoded(start + bytes(64), tmp_path / "pack")
