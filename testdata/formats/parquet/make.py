"""Small files by pyarrow. (The types-* files are made beside the Arrow ones, by ../arrow/make.py.)

times.parquet: a column of each kind of time. Seconds are stored as milliseconds, and noted.
missing.parquet: columns with and without nulls.
"""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

TIMES = {
    "seconds": pa.array([1_700_000_000, -1], pa.timestamp("s")),
    "millis": pa.array([1_700_000_000_123, -1], pa.timestamp("ms")),
    "micros": pa.array([5, -5], pa.timestamp("us", tz="UTC")),
    "nanos": pa.array([6, -6], pa.timestamp("ns")),
    "time": pa.array([3601, 1], pa.time32("s")),
    "date": pa.array([19_000, -1], pa.date32()),
    "span": pa.array([8, -8], pa.duration("s")),
    "plain": pa.array([9, -9], pa.int64()),
}
MISSING = {"x": [1, None, 3], "y": [0.5, 1.5, None], "z": [7, 8, 9], "l": [[1, None], [], [3]]}

HERE = Path(__file__).parent
pq.write_table(pa.table(TIMES), HERE / "times.parquet")
pq.write_table(pa.table(MISSING), HERE / "missing.parquet")
