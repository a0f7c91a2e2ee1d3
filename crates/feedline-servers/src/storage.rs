//! `s3s-fs` with larger pieces of bodies: its own are 4 KiB. Such a body costs the server ten times, and the client
//! twice, the CPU time of a body in pieces of the usual size. It can serve 150 MB/s here, and a benchmark of
//! something faster would measure nothing else.

use std::path::PathBuf;

use s3s::dto::*;
use s3s::{S3, S3Request, S3Response, S3Result};
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio_util::io::ReaderStream;

const PIECE: usize = 256 << 10;

/// `s3s-fs` over a folder.
#[derive(Debug)]
pub(crate) struct Storage {
    pub(crate) folder: PathBuf,
    pub(crate) files: s3s_fs::FileSystem,
}

impl Storage {
    /// The bytes that `answer` announces, in larger pieces.
    async fn body(&self, path: PathBuf, answer: &GetObjectOutput) -> std::io::Result<StreamingBlob> {
        let start = answer.content_range.as_deref().and_then(|range| {
            let (start, _) = range.strip_prefix("bytes ")?.split_once('-')?;
            start.parse::<u64>().ok()
        });
        let mut file = tokio::fs::File::open(path).await?;
        file.seek(std::io::SeekFrom::Start(start.unwrap_or(0))).await?;
        file.set_max_buf_size(PIECE);
        let length = answer.content_length.unwrap_or(0).max(0) as u64;
        Ok(StreamingBlob::wrap(ReaderStream::with_capacity(file.take(length), PIECE)))
    }
}

macro_rules! as_it_is {
    ($($name:ident: $input:ident => $output:ident,)*) => {
        #[async_trait::async_trait]
        impl S3 for Storage {
            $(async fn $name(&self, request: S3Request<$input>) -> S3Result<S3Response<$output>> {
                self.files.$name(request).await
            })*

            async fn get_object(
                &self,
                request: S3Request<GetObjectInput>,
            ) -> S3Result<S3Response<GetObjectOutput>> {
                let path = self.folder.join(&request.input.bucket).join(&request.input.key);
                let mut answer = self.files.get_object(request).await?;
                if let Ok(body) = self.body(path, &answer.output).await {
                    answer.output.body = Some(body);
                }
                Ok(answer)
            }
        }
    };
}

as_it_is! {
    abort_multipart_upload: AbortMultipartUploadInput => AbortMultipartUploadOutput,
    complete_multipart_upload: CompleteMultipartUploadInput => CompleteMultipartUploadOutput,
    copy_object: CopyObjectInput => CopyObjectOutput,
    create_bucket: CreateBucketInput => CreateBucketOutput,
    create_multipart_upload: CreateMultipartUploadInput => CreateMultipartUploadOutput,
    delete_object: DeleteObjectInput => DeleteObjectOutput,
    delete_objects: DeleteObjectsInput => DeleteObjectsOutput,
    get_bucket_location: GetBucketLocationInput => GetBucketLocationOutput,
    head_bucket: HeadBucketInput => HeadBucketOutput,
    head_object: HeadObjectInput => HeadObjectOutput,
    list_buckets: ListBucketsInput => ListBucketsOutput,
    list_objects: ListObjectsInput => ListObjectsOutput,
    list_objects_v2: ListObjectsV2Input => ListObjectsV2Output,
    list_parts: ListPartsInput => ListPartsOutput,
    put_object: PutObjectInput => PutObjectOutput,
    upload_part: UploadPartInput => UploadPartOutput,
}
