import os, shutil, json
from torchvision.datasets import folder

root = "/tmp/tvgold/set"
shutil.rmtree(root, ignore_errors=True)
names = [
    "b/1.jpg",
    "b/10.jpg",
    "b/2.JPG",
    "b/sub/1.png",
    "b/sub a/1.png",
    "b/sub-x/1.png",
    "b/sub.x/1.png",
    "b/sub/deep/3.webp",
    "B/1.jpeg",
    "a b/1.bmp",
    "a/z.tiff",
    "a/A.ppm",
    "a/é.jpg",
    "a/e\u0301.jpg",
    "a/\U0001f600.jpg",
    "a/\ufb01.jpg",
    "ä/1.pgm",
    ".hid/1.jpg",
    "a/.hidden.jpg",
    "a/notes.txt",
    "a/x.jpg.bak",
    "10/1.tif",
    "9/1.jpg",
    "a/noext",
    "b/link/keep.jpg",
    "a-b/1.jpg",
]
for n in names:
    p = os.path.join(root, n)
    os.makedirs(os.path.dirname(p), exist_ok=True)
    open(p, "wb").write(n.encode())
os.makedirs(root + "/empty", exist_ok=True)
os.symlink("../b/sub", root + "/a/linked")
classes, idx = folder.find_classes(root)
s = folder.make_dataset(root, idx, extensions=folder.IMG_EXTENSIONS, allow_empty=True)
print(
    json.dumps(
        {"files": names, "classes": classes, "samples": [[os.path.relpath(p, root), i] for p, i in s]},
        indent=0,
        ensure_ascii=False,
    )
)
