"""What webdataset makes of awkward member names: names.json holds [name, key or null, suffix or null]."""

import json, random
from webdataset.tariterators import base_plus_ext

random.seed(7)
names = {"".join(random.choice("ab./.Aé_") for _ in range(random.randint(1, 9))) for _ in range(600)}
print(json.dumps([[n, *base_plus_ext(n)] for n in sorted(names)], ensure_ascii=False))
