"""Writes testdata/images: small files of every format, and what Pillow makes of them.

Run with Pillow (written with 13.0.0): python tools/make_image_golden.py

golden.txt has one line per file: name, size as stored, sha256 of the RGB bytes as stored, size upright, sha256 upright.
"""

import hashlib
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

OUT = Path(__file__).parent.parent / "testdata" / "images"
WIDTH, HEIGHT = 23, 17


def picture(mode: str) -> Image.Image:
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    channels = [x * 11, y * 15, (x * y * 7) % 256, 255 - (x + y) * 5]
    rgba = Image.fromarray(np.stack(channels, -1).astype(np.uint8))
    if mode == "CMYK":
        return Image.fromarray(np.stack(channels, -1).astype(np.uint8), "CMYK")
    if mode == "P":
        return rgba.convert("RGB").quantize(37)
    if mode == "I;16":
        return Image.fromarray((x * 2500 + y * 300).astype(np.uint16))
    return rgba.convert(mode)


def turned(number: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = number
    return exif


def save_all() -> None:
    for mode in ("1", "L", "LA", "RGB", "RGBA", "P"):
        picture(mode).save(OUT / f"{mode.lower()}.png")
    picture("P").save(OUT / "p-transparent.png", transparency=3)
    picture("RGB").save(OUT / "rgb-transparent.png", transparency=(0, 0, 0))
    picture("P").save(OUT / "p-4bit.png", bits=4)
    for number in range(2, 9):
        picture("RGB").save(OUT / f"turned-{number}.png", exif=turned(number))
    (OUT / "interlaced-1bit.png").write_bytes(interlaced_png())

    picture("RGB").save(OUT / "lossy.webp", quality=80)
    picture("RGBA").save(OUT / "lossy-alpha.webp", quality=80)
    picture("RGBA").save(OUT / "lossless.webp", lossless=True)
    picture("RGB").save(OUT / "turned-6.webp", lossless=True, exif=turned(6))
    frames = [picture("RGB"), ImageOps.mirror(picture("RGB"))]
    frames[0].save(OUT / "animated.webp", save_all=True, append_images=frames[1:], lossless=True)

    picture("P").save(OUT / "palette.gif")
    picture("L").save(OUT / "grey.gif")
    picture("P").save(OUT / "transparent.gif", transparency=5)
    frames[0].save(OUT / "animated.gif", save_all=True, append_images=frames[1:])
    (OUT / "offset.gif").write_bytes(offset_gif())

    for mode in ("1", "L", "P", "RGB", "RGBA"):
        picture(mode).save(OUT / f"{mode.lower()}.bmp")
    for name, data in bitmaps():
        (OUT / f"{name}.bmp").write_bytes(data)

    for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK"):
        picture(mode).save(OUT / f"{mode.lower()}.tiff")
    for compression in ("tiff_lzw", "tiff_adobe_deflate", "packbits"):
        picture("RGB").save(OUT / f"{compression}.tiff", compression=compression)
    for number in (2, 6):
        picture("RGB").save(OUT / f"turned-{number}.tiff", tiffinfo={0x0112: number})


def interlaced_png() -> bytes:
    """Pillow cannot write these: seven passes of a 9 x 5 one-bit image."""
    width, height = 9, 5
    bits = np.indices((height, width)).sum(0) % 3 == 0
    rows = b""
    for x0, y0, dx, dy in (
        (0, 0, 8, 8),
        (4, 0, 8, 8),
        (0, 4, 4, 8),
        (2, 0, 4, 4),
        (0, 2, 2, 4),
        (1, 0, 2, 2),
        (0, 1, 1, 2),
    ):
        part = bits[y0::dy, x0::dx]
        if part.size:
            rows += b"".join(b"\0" + np.packbits(row).tobytes() for row in part)

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 1)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def offset_gif() -> bytes:
    """A 3 x 2 frame at (2, 1) of a 6 x 4 canvas."""
    head = b"GIF89a" + struct.pack("<HHBBB", 6, 4, 0x80 | 1, 0, 0) + bytes([255, 0, 0, 0, 255, 0, 0, 0, 255, 9, 9, 9])
    # Clear, then a clear code before the table grows past three bits: 1 2 3 / 3 2 1.
    codes = [4, 1, 2, 4, 3, 3, 4, 2, 1, 5]
    value = sum(code << (3 * index) for index, code in enumerate(codes))
    data = value.to_bytes((3 * len(codes) + 7) // 8, "little")
    return head + b"," + struct.pack("<HHHHB", 2, 1, 3, 2, 0) + bytes([2, len(data)]) + data + b"\0;"


def bitmaps():
    """Bitmaps that Pillow reads but does not write."""

    def info(bits, compression, data, palette=b"", masks=b"", width=5, height=3):
        offset = 14 + 40 + len(masks) + len(palette)
        head = struct.pack("<2sIHHI", b"BM", offset + len(data), 0, 0, offset)
        colours = len(palette) // 4
        return (
            head
            + struct.pack("<IiiHHIIiiII", 40, width, height, 1, bits, compression, len(data), 0, 0, colours, 0)
            + masks
            + palette
            + data
        )

    palette = b"".join(bytes([i * 16, 255 - i * 10, i * 3, 0]) for i in range(16))
    yield "rle8", info(8, 1, bytes([5, 7, 0, 0, 0, 5, 1, 2, 3, 4, 5, 0, 0, 0, 2, 3, 9, 9, 0, 0, 0, 1]), palette)
    yield "rle8-jump", info(8, 1, bytes([2, 7, 0, 2, 1, 1, 2, 4, 0, 0, 5, 6, 0, 1]), palette)
    yield "rle4", info(4, 2, bytes([5, 0x12, 0, 0, 0, 5, 0x34, 0x56, 0x70, 0, 0, 0, 5, 0x89, 0, 1]), palette)
    yield "nibbles-top-down", info(4, 0, bytes(range(0x10, 0x10 + 12)), palette, height=-3)
    words = [(i * 4099) & 0xFFFF for i in range(15)]
    rows = b"".join(struct.pack("<5H2x", *words[i * 5 : i * 5 + 5]) for i in range(3))
    yield "555", info(16, 0, rows)
    yield "565", info(16, 3, rows, masks=struct.pack("<III", 0xF800, 0x7E0, 0x1F))
    longs = struct.pack("<15I", *[(i * 0x01030507) & 0xFFFFFFFF for i in range(15)])
    yield "bgrx", info(32, 0, longs)
    yield "xbgr", info(32, 3, longs, masks=struct.pack("<III", 0xFF000000, 0xFF0000, 0xFF00))
    core = struct.pack("<2sIHHIIHHHH", b"BM", 0, 0, 0, 26 + 48, 12, 5, 3, 1, 4)
    small = b"".join(bytes([i * 16, 255 - i * 10, i * 3]) for i in range(16))
    yield "os2", core + small + bytes(range(0x21, 0x21 + 12))


def main() -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    for old in OUT.iterdir():
        old.unlink()
    save_all()
    lines = []
    for path in sorted(OUT.iterdir()):
        with Image.open(path) as image:
            image.load()
            parts = [path.name]
            for version in (image, ImageOps.exif_transpose(image)):
                rgb = version.convert("RGB")
                parts += [f"{rgb.width}x{rgb.height}", hashlib.sha256(rgb.tobytes()).hexdigest()]
        lines.append(" ".join(parts))
    (OUT / "golden.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
