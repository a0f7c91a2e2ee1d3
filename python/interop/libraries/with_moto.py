"""Fills a versioned bucket of the emulator: objects, markers, a replaced and a deleted object."""

import sys
from pathlib import Path

import boto3

endpoint, folder = sys.argv[1], Path(sys.argv[2])
s3 = boto3.client(
    "s3", endpoint_url=endpoint, aws_access_key_id="a", aws_secret_access_key="b", region_name="us-east-1"
)
s3.create_bucket(Bucket="bucket")
s3.put_bucket_versioning(Bucket="bucket", VersioningConfiguration={"Status": "Enabled"})
files = sorted(path for path in folder.rglob("*") if path.is_file())
first = next(path for path in files if path.suffix == ".jpg")
for path in files:
    key = path.relative_to(folder).as_posix()
    if path == first:
        s3.put_object(Bucket="bucket", Key=key, Body=b"an older version")
    s3.put_object(Bucket="bucket", Key=key, Body=path.read_bytes())
    for parent in path.relative_to(folder).parents:
        name = parent.as_posix()
        if name != ".":
            s3.put_object(Bucket="bucket", Key=f"{name}/", Body=b"")
            s3.put_object(Bucket="bucket", Key=f"{name}_$folder$", Body=b"")
gone = "animals/cat/gone.jpg"
s3.put_object(Bucket="bucket", Key=gone, Body=first.read_bytes())
s3.delete_object(Bucket="bucket", Key=gone)
s3.put_object(Bucket="bucket", Key="animals//odd.jpg", Body=first.read_bytes())
