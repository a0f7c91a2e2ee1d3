"""Images of every codec against Pillow: the same pixels, or a refusal that names the format."""

from __future__ import annotations

import io
import pickle
import struct
from pathlib import Path

import feedline as fl
import numpy as np
import pytest
from feedline import transforms as T
from made_images import make_image
from PIL import Image, ImageOps

SIZES = [(1, 1), (7, 5), (64, 48), (131, 67)]


def decoded(data, folder):
    ds = fl.pack([{"image": data}], folder, schema={"image": "image"}, image="as-is", progress=False, overwrite=True)
    return ds.decoded()[0]["image"]


def pillow(data):
    return np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB"))


def photo(mode, size):
    image = Image.fromarray(make_image(3, *size))
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
    pixels = make_image(5, 53, 41)
    data = tiff(pixels, big_endian=big_endian, large=large, **shape)
    np.testing.assert_array_equal(decoded(data, tmp_path / "pack"), pixels)


def test_tiff_fill_order_and_unstated_extra_samples(tmp_path):
    pixels = make_image(6, 19, 9)
    reversed_bits = np.unpackbits(pixels, bitorder="little").reshape(-1, 8)
    turned = np.packbits(reversed_bits, axis=1).reshape(pixels.shape)
    np.testing.assert_array_equal(decoded(tiff(turned, **{"266": [2]}), tmp_path / "a"), pixels)
    four = np.concatenate([pixels, np.full((9, 19, 1), 7, np.uint8)], axis=2)
    np.testing.assert_array_equal(decoded(tiff(four, extra=[0]), tmp_path / "b"), pixels)


def test_tiff_of_more_than_8_bits(tmp_path):
    """Sixteen bits keep the upper eight; floats and wide numbers are clipped, as in Pillow."""
    pixels = make_image(7, 23, 11)
    wide = pixels.astype(np.uint16) * 257
    np.testing.assert_array_equal(decoded(tiff(wide, big_endian=True), tmp_path / "a"), pixels)
    floats = pixels[..., :1].astype(np.float32) * 2 - 100
    data = tiff(floats, photometric=1)
    np.testing.assert_array_equal(decoded(data, tmp_path / "b"), pillow(data))
    numbers = pixels[..., :1].astype(np.int32) * 3 - 200
    data = tiff(numbers, photometric=1)
    np.testing.assert_array_equal(decoded(data, tmp_path / "c"), pillow(data))


def test_a_tiff_truncated_anywhere_is_an_error(tmp_path):
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
    for kind, options in [
        ("GIF", {}),
        ("TIFF", {"compression": "tiff_lzw"}),
        ("TIFF", {"compression": "tiff_deflate"}),
    ]:
        data = bytearray(saved(Image.effect_noise((80, 60), 50), kind, **options))
        data[2000:2010] = b"\xff" * 10
        with pytest.raises(fl.SampleError, match=r"at byte \d+: ") as found:
            decoded(bytes(data), tmp_path / "damaged")
        said = int(str(found.value).rpartition(" at byte ")[2].partition(":")[0])
        assert 1500 < said < 3500, str(found.value)


@pytest.mark.parametrize(
    ("start", "name"),
    [
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "HEIC"),
        (b"%PDF-1.7", "PDF"),
    ],
)
def test_refused_formats_are_named(tmp_path, start, name):
    with pytest.raises(fl.SampleError, match=f"unsupported {name}"):
        decoded(start + bytes(64), tmp_path / "pack")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("subsampling", ["4:2:0", "4:2:2", "4:4:4", "4:0:0"])
@pytest.mark.parametrize("full", [True, False])
def test_avif(tmp_path, full, subsampling, size):
    options = {"subsampling": subsampling, "range": "full" if full else "limited", "quality": 60, "speed": 10}
    data = saved(photo("RGB", size), "AVIF", **options)
    np.testing.assert_array_equal(decoded(data, tmp_path / "pack"), pillow(data))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_avif_orientation(tmp_path, orientation):
    exif = Image.Exif()
    exif[274] = orientation
    data = saved(photo("RGB", (40, 26)), "AVIF", exif=exif.tobytes(), speed=10)
    np.testing.assert_array_equal(decoded(data, tmp_path / "pack"), pillow(data))


def test_avif_with_opacity(tmp_path):
    image = photo("RGB", (60, 41))
    image.putalpha(Image.linear_gradient("L").resize(image.size))
    data = saved(image, "AVIF", speed=10)
    folder = tmp_path / "pack"
    ds = fl.pack([{"image": data}], folder, schema={"image": "image"}, image="as-is", progress=False)
    np.testing.assert_array_equal(ds.decoded()[0]["image"], pillow(data))
    expected = np.asarray(Image.open(io.BytesIO(data)))
    np.testing.assert_array_equal(ds.decoded(mode="RGBA")[0]["image"], expected)
    np.testing.assert_array_equal(ds.decoded(mode="unchanged")[0]["image"], expected)


def test_an_animated_avif_gives_its_first_image(tmp_path):
    frames = [photo("RGB", (32, 24)), Image.new("RGB", (32, 24), "red")]
    data = saved(frames[0], "AVIF", save_all=True, append_images=frames[1:], speed=10)
    np.testing.assert_array_equal(decoded(data, tmp_path / "pack"), pillow(data))


def test_an_avif_truncated_anywhere_is_an_error(tmp_path):
    data = saved(photo("RGB", (64, 48)), "AVIF", speed=10)
    for length in [20, 60, 150, 250, len(data) // 2, len(data) - 9]:
        with pytest.raises(fl.SampleError, match="AVIF"):
            decoded(data[:length], tmp_path / f"cut{length}")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA"])
@pytest.mark.parametrize("options", [{}, {"irreversible": True, "quality_layers": [20]}, {"no_jp2": True}])
def test_jpeg_2000(tmp_path, options, mode, size):
    data = saved(photo(mode, size), "JPEG2000", **options)
    np.testing.assert_array_equal(decoded(data, tmp_path / "pack"), pillow(data))


def test_jpeg_2000_of_16_bits(tmp_path):
    values = np.arange(40 * 50, dtype=np.uint16).reshape(40, 50) * 30
    data = saved(Image.fromarray(values), "JPEG2000")
    ds = fl.pack([{"image": data}], tmp_path / "pack", schema={"image": "image"}, image="as-is", progress=False)
    np.testing.assert_array_equal(ds.decoded(mode="I;16")[0]["image"], values)
    np.testing.assert_array_equal(ds.decoded(mode="unchanged")[0]["image"], values)
    np.testing.assert_array_equal(ds.decoded()[0]["image"][..., 0], values >> 8)


def test_a_jpeg_2000_truncated_anywhere_is_an_error(tmp_path):
    data = saved(photo("RGB", (64, 48)), "JPEG2000")
    for length in [13, 40, 100, 150, len(data) // 2, len(data) - 20]:
        with pytest.raises(fl.SampleError, match="JPEG 2000"):
            decoded(data[:length], tmp_path / f"cut{length}")


def seed(name):
    return (Path(__file__).parents[2] / "fuzz" / "seeds" / "images" / name).read_bytes()


def test_jpeg_xl(tmp_path):
    """Pillow has no decoder: files that libjxl wrote from this pattern."""
    y, x = np.mgrid[0:30, 0:40]
    pattern = np.stack([x * 6, y * 8, (x * y) % 256, 255 - x], -1).astype(np.uint8)
    names = ["jxl-rgb.jxl", "jxl-rgba.jxl", "jxl-grey.jxl", "jxl-lossy.jxl"]
    rows = [{"image": seed(name)} for name in names]
    ds = fl.pack(rows, tmp_path / "pack", schema={"image": "image"}, image="as-is", progress=False)
    np.testing.assert_array_equal(ds.decoded()[0]["image"], pattern[..., :3])
    np.testing.assert_array_equal(ds.decoded(mode="RGBA")[1]["image"], pattern)
    np.testing.assert_array_equal(ds.decoded(mode="L")[2]["image"], pattern[..., 0])
    # An animation's first frame: the red light is on.
    np.testing.assert_allclose(decoded(seed("jxl.jxl"), tmp_path / "light")[23, 28], [236, 24, 24], atol=1)
    far = np.abs(ds.decoded()[3]["image"].astype(int) - pattern[..., :3])
    assert far.mean() < 10
    for length in [3, 30, len(rows[0]["image"]) // 2, len(rows[0]["image"]) - 8]:
        with pytest.raises(fl.SampleError, match="JPEG XL"):
            decoded(rows[0]["image"][:length], tmp_path / f"cut{length}")


def test_a_header_too_large_for_a_pack(tmp_path):
    """The sample is bad, not the pack."""
    data = bytearray(saved(photo("RGB", (64, 48)), "PNG"))
    data[20:24] = b"\x86\0\0\0"
    rows = [{"image": bytes(data)}, {"image": saved(photo("RGB", (64, 48)), "PNG")}]
    ds = fl.pack(rows, tmp_path / "pack", schema={"image": "image"}, image="as-is", check="none", progress=False)
    assert ds.decoded()[1]["image"].shape == (48, 64, 3)
    with pytest.raises(fl.SampleError, match="pixels"):
        ds.decoded()[0]


def test_decoded_takes_a_mode(tmp_path):
    """By field, as in a loader."""
    mask = Image.fromarray(np.arange(48, dtype=np.uint8).reshape(6, 8)).convert("P")
    depth = np.arange(48, dtype=np.uint16).reshape(6, 8) * 1000
    rows = [
        {
            "image": saved(photo("RGB", (8, 6)), "PNG"),
            "mask": saved(mask, "PNG"),
            "depth": saved(Image.fromarray(depth), "PNG"),
        }
    ]
    schema = dict.fromkeys(rows[0], "image")
    ds = fl.pack(rows, tmp_path / "pack", schema=schema, image="as-is", progress=False)
    sample = ds.decoded(mode={"mask": "index", "depth": "I;16"})[0]
    np.testing.assert_array_equal(sample["image"], np.asarray(photo("RGB", (8, 6))))
    np.testing.assert_array_equal(sample["mask"], np.asarray(mask))
    np.testing.assert_array_equal(sample["depth"], depth)
    assert ds.select([0]).decoded(mode="L")[0]["depth"].shape == (6, 8)
    with pytest.raises(fl.OptionError, match="mode: 'maks' is not the name of an image field"):
        ds.decoded(mode={"maks": "index"})
    with pytest.raises(fl.OptionError, match="is not one of 'RGB'"):
        ds.decoded(mode="BGR")
    packed = fl.pack(rows, tmp_path / "rgb", schema=schema, image="rgb", progress=False)
    with pytest.raises(fl.SampleError, match="stored as rgb"):
        packed.decoded(mode="index")[0]


def test_wrong_checksums_are_errors(tmp_path):
    """Pixels that changed on the way are never delivered."""
    for compression in ["tiff_adobe_deflate", "lzma"]:
        data = bytearray(saved(photo("RGB", (40, 30)), "TIFF", compression=compression))
        good = pillow(bytes(data))
        changed = 0
        for at in range(40, 400, 17):
            other = bytes(data[:at]) + bytes([data[at] ^ 0x10]) + bytes(data[at + 1 :])
            try:
                pixels = decoded(other, tmp_path / "pack")
            except fl.SampleError:
                changed += 1
            else:
                np.testing.assert_array_equal(pixels, good)
        assert changed > 5


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_orientation_whose_numbers_are_missing_is_none(tmp_path):
    exif = Image.Exif()
    exif[274] = 6
    data = saved(photo("RGB", (40, 26)), "WEBP", exif=exif.tobytes())
    at = data.index(b"\x01\x12\x00\x03")
    several = data[: at + 4] + b"\0\0\x02\0" + data[at + 8 :]
    assert decoded(data, tmp_path / "one").shape == (40, 26, 3)
    np.testing.assert_array_equal(decoded(several, tmp_path / "two"), pillow(several))


def test_tiff_without_photometric_tag_is_white_at_zero(tmp_path):
    data = saved(photo("L", (20, 10)), "TIFF")
    at = data.index(struct.pack("<HHI", 262, 3, 1))
    other = data[:at] + struct.pack("<H", 263) + data[at + 2 :]
    np.testing.assert_array_equal(decoded(other, tmp_path / "pack"), pillow(other))


def test_wrong_avif_boxes_are_errors(tmp_path):
    data = saved(photo("RGB", (40, 26)), "AVIF", speed=10)
    at = data.index(b"nclx") + 10
    for other in [
        data[:at] + bytes([data[at] | 0x0C]) + data[at + 1 :],
        data.replace(b"ispe", b"ispx"),
        data.replace(b"hdlr", b"hdxx"),
    ]:
        with pytest.raises(fl.SampleError, match="AVIF"):
            decoded(other, tmp_path / "pack")
        with pytest.raises(Exception, match="identify"):
            pillow(other)


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "TIFF"])
def test_regions_equal_the_whole_image(tmp_path, kind):
    """Crops decode only what they need; the pixels are those of the whole image."""
    options = {"PNG": {}, "WEBP": {"quality": 80}, "TIFF": {"compression": "tiff_lzw", "strip_size": 2000}}[kind]
    data = saved(photo("RGB", (131, 97)), kind, **options)
    ds = fl.pack([{"image": data}], tmp_path / "pack", schema={"image": "image"}, image="as-is", progress=False)
    whole = ds.decoded()[0]["image"]
    for height, width in [(1, 1), (20, 31), (97, 3), (5, 131), (96, 130)]:
        knobs = {"transforms": [T.CenterCrop((height, width))], "dtype": "uint8", "memory_format": "channels_last"}
        with fl.Loader(ds, output="numpy", **knobs) as loader:
            found = next(iter(loader))["image"][0]
        top, left = round((97 - height) / 2), round((131 - width) / 2)
        np.testing.assert_array_equal(found, whole[top : top + height, left : left + width])


def test_a_png_damaged_below_the_crop_is_an_error(tmp_path):
    data = bytearray(saved(photo("RGB", (131, 97)), "PNG"))
    for other in [bytes(data[:-1200]), bytes(data[:-60]) + bytes([data[-60] ^ 1]) + bytes(data[-59:])]:
        ds = fl.pack(
            [{"image": other}],
            tmp_path / "pack",
            schema={"image": "image"},
            image="as-is",
            check="none",
            progress=False,
            overwrite=True,
        )
        with (
            fl.Loader(ds, output="numpy", transforms=[T.CenterCrop(8)]) as loader,
            pytest.raises(fl.SampleError, match="png"),
        ):
            next(iter(loader))


def jpeg_with(*segments):
    """A JPEG file with these APP1 segments after its first marker."""
    data = saved(photo("RGB", (40, 26)), "JPEG", quality=90)
    extra = b"".join(b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body for body in segments)
    return data[:2] + extra + data[2:]


def exif_with(kind, count, value):
    """An EXIF block whose only entry is the orientation, with odd types and counts."""
    entry = struct.pack("<HHI", 274, kind, count) + value.ljust(4, b"\0")[:4]
    return b"Exif\0\0II*\0\x08\0\0\0\x01\0" + entry + b"\0\0\0\0" + 40 * b"\x06\0"


XMP = b'http://ns.adobe.com/xap/1.0/\0<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf tiff:Orientation="8"/></x:xmpmeta>'


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("packet", [False, True])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 16])
@pytest.mark.parametrize("kind", [*range(14), 16, 17])
def test_jpeg_orientation_of_unusual_types_and_counts(tmp_path, kind, count, packet):
    segments = [exif_with(kind, count, b"\x06\0")] + [XMP] * packet
    data = jpeg_with(*segments)
    np.testing.assert_array_equal(decoded(data, tmp_path / "pack"), pillow(data))


@pytest.mark.parametrize(("kind", "value"), [(5, "<II"), (10, "<ii"), (11, "<f"), (12, "<d"), (16, "<Q"), (9, "<i")])
@pytest.mark.parametrize("number", [6, -6, 0, 2**31 - 1])
def test_jpeg_orientation_as_any_kind_of_number(tmp_path, kind, value, number):
    numbers = [abs(number) if value in ("<II", "<Q") else number] + [1] * (len(value) - 2)
    stored = struct.pack(value, *numbers)
    entry = struct.pack("<HHI", 274, kind, 1) + (stored if len(stored) == 4 else struct.pack("<I", 40))
    data = jpeg_with(b"Exif\0\0II*\0\x08\0\0\0\x01\0" + entry + bytes(18) + stored)
    np.testing.assert_array_equal(decoded(data, tmp_path / "pack"), pillow(data))


@pytest.mark.parametrize("number", [0, 1, 3, 6, 9])
def test_jpeg_orientation_in_xmp_counts_if_exif_has_none(tmp_path, number):
    for data in [
        jpeg_with(XMP),
        jpeg_with(XMP, exif_with(3, 1, bytes([number]))),
        jpeg_with(XMP.replace(b"8", b"3"), XMP),
    ]:
        np.testing.assert_array_equal(decoded(data, tmp_path / "pack"), pillow(data))


def test_a_page_of_several(tmp_path):
    """Every page of a TIFF, in every mode, also after pickling."""
    pages = [Image.fromarray(np.arange((5 + page) * 7, dtype=np.uint8).reshape(-1, 7)) for page in range(3)]
    pages[0].save(tmp_path / "a.tif", save_all=True, append_images=pages[1:])
    ds = fl.open(tmp_path)
    for page, expected in enumerate(np.asarray(image) for image in pages):
        for source in (ds.decoded(mode="L", page=page), pickle.loads(pickle.dumps(ds.decoded(mode="L", page=page)))):
            np.testing.assert_array_equal(source[0]["image"], expected)
            np.testing.assert_array_equal(source[0:1][0]["image"], expected)
        np.testing.assert_array_equal(ds.decoded(page=page)[0]["image"], np.repeat(expected[..., None], 3, -1))
    with pytest.raises(fl.SampleError, match="page 3 of a file with 3 pages"):
        ds.decoded(page=3)[0]
    with pytest.raises(fl.OptionError, match="page"):
        ds.decoded(page=-1)
