"""Packs a folder, twenty times over, on a cluster that is there: `pack_run.py ENGINE ADDRESS FOLDER PACK`. To be killed."""

from __future__ import annotations

import sys

from clusters import PART_BYTES, many


def connect(engine, address):
    """The module that packs, once this process is a driver of the cluster."""
    if engine == "ray":
        import feedline.ray
        import ray

        ray.init(address=address, log_to_driver=False, _node_ip_address=address.partition(":")[0])
        return feedline.ray
    if engine == "dask":
        import distributed
        import feedline.dask

        distributed.Client(address)
        return feedline.dask
    import feedline.spark
    from test_spark import start

    start()
    return feedline.spark


if __name__ == "__main__":
    engine, address, folder, pack = sys.argv[1:]
    connect(engine, address).pack(many(folder), pack, part_bytes=PART_BYTES, progress=False)
