//! JPEG decoding that reads only what a region needs, with exactly libjpeg-turbo's pixels.
//!
//! [`Decoder`] is the entry point. It decodes baseline, extended sequential and progressive Huffman files of one or three
//! components itself, and uses a seek index, if there is one, to jump to the region; everything else goes to
//! [`crate::turbo`].
//! Both ways give the same pixels and differ only in time. `README.md` in this folder explains the parts.

pub(crate) mod coefficients;
pub(crate) mod color;
pub(crate) mod frame;
pub(crate) mod huffman;
pub(crate) mod idct;
mod index;
pub(crate) mod parse;
mod progressive;
pub(crate) mod region;
pub(crate) mod render;
mod scan;
pub(crate) mod source;
mod tables;
pub(crate) mod upsample;

use crate::{CpuLevel, Error, Geometry, ImageMut, ImageRef, PixelLayout, Region, Result, Size, turbo};
use frame::{Frame, Scaled};
use huffman::Irregular;
use index::{Density, Identity, Index};
use parse::{NotCovered, ParsedMarkers, Process};
use region::{Pipeline, Wanted};
use render::{ImageTarget, SinkTarget, Target};
use source::{Jumps, JumpsThenWalk, SourceScratch, Walk};
use tables::TableCache;

/// Default of [`Decoder::with_pixel_limit`]: the limit from which Pillow raises an error.
pub const DEFAULT_PIXEL_LIMIT: u64 = 178_956_970;

/// Scale of decoding: the DCT can give smaller images for less work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scale {
    /// Full size.
    #[default]
    Full,
    /// Half the width and height, rounded up.
    Half,
    /// A quarter of the width and height.
    Quarter,
    /// An eighth of the width and height: one pixel per block.
    Eighth,
}

impl Scale {
    /// Samples per block across, out of eight.
    pub(crate) const fn eighths(self) -> u8 {
        match self {
            Scale::Full => 8,
            Scale::Half => 4,
            Scale::Quarter => 2,
            Scale::Eighth => 1,
        }
    }

    /// The largest reduction at which the crop box still has at least as many pixels as the result in both directions,
    /// and the geometry at that scale. The box moves by at most half a reduced pixel.
    pub fn reduce(geometry: &Geometry) -> (Scale, Geometry) {
        let scale = Self::fitting(geometry);
        (scale, scale.reduced(geometry))
    }

    /// The largest reduction at which the crop box still has at least as many pixels as the result in both directions.
    /// For several geometries, use the smallest reduction.
    pub fn fitting(geometry: &Geometry) -> Scale {
        let fits = |scale: Scale| {
            let factor = scale.factor();
            u64::from(geometry.crop.width) >= u64::from(geometry.resized.width) * factor
                && u64::from(geometry.crop.height) >= u64::from(geometry.resized.height) * factor
        };
        let smaller = [Scale::Eighth, Scale::Quarter, Scale::Half];
        smaller.into_iter().find(|scale| fits(*scale)).unwrap_or(Scale::Full)
    }

    /// The geometry at this scale.
    pub fn reduced(self, geometry: &Geometry) -> Geometry {
        if self == Scale::Full {
            return *geometry;
        }
        let (image, factor) = (self.apply(geometry.image), self.factor() as u32);
        let along = |start: u32, length: u32, limit: u32| {
            let first = ((start + factor / 2) / factor).min(limit - 1);
            let last = ((start + length + factor / 2) / factor).clamp(first + 1, limit);
            (first, last - first)
        };
        let (x, width) = along(geometry.crop.x, geometry.crop.width, image.width);
        let (y, height) = along(geometry.crop.y, geometry.crop.height, image.height);
        Geometry { image, crop: Region::new(x, y, width, height), ..*geometry }
    }

    pub(crate) const fn factor(self) -> u64 {
        8 / self.eighths() as u64
    }

    /// Size of an image at this scale.
    pub fn apply(self, size: Size) -> Size {
        turbo::scaled_size(size, self.eighths())
    }
}

/// Header of a JPEG.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JpegHeader {
    /// Width and height in pixels, before any EXIF rotation.
    pub size: Size,
    /// Colour components: 1 grey, 3 colour, 4 CMYK or YCCK.
    pub components: u8,
    /// Bits per sample.
    pub precision: u8,
    /// EXIF orientation, 1 to 8; 1 if there is none.
    pub orientation: u8,
    /// Whether it is progressive: all its scans must be read, and it cannot be indexed.
    pub progressive: bool,
    /// Whether [`Decoder::build_index`] is expected to return an index.
    pub indexable: bool,
}

/// The decoder that was used. Only for statistics: the pixels are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Path {
    /// Our own, with a seek index.
    Indexed,
    /// Our own, from the start of the scan or scans.
    Sequential,
    /// libjpeg-turbo.
    Turbo,
}

/// How much of a seek index decodes record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Recording {
    /// Nothing.
    #[default]
    Off,
    /// The rows that are decoded anyway, and those above them; and the rest if it is at most a quarter. If a later decode
    /// needs more rows than an index has, it records a longer one.
    Decoded,
    /// The whole image; costs the entropy decoding of the rest of the scan.
    Whole,
}

/// Reads the header without decoding anything.
pub fn probe(bytes: &[u8]) -> Result<JpegHeader> {
    if bytes.get(..2) != Some(&[0xFF, 0xD8]) {
        return Err(Error::UnknownFormat("no JPEG start marker".into()));
    }
    if let Ok(header) = parse::parse(bytes) {
        return Ok(JpegHeader {
            size: header.size,
            components: header.count as u8,
            precision: header.precision,
            orientation: header.orientation,
            progressive: header.process == Process::Progressive,
            indexable: header.restart_interval == 0 && Frame::new(&header).is_ok(),
        });
    }
    let header = turbo::header(bytes)?;
    Ok(JpegHeader {
        size: header.size,
        components: header.components,
        precision: header.precision,
        orientation: 1,
        progressive: header.progressive,
        indexable: false,
    })
}

/// Whether a JPEG can have a seek index, as far as its markers show; see [`Decoder::build_index`].
pub fn may_have_index(bytes: &[u8]) -> bool {
    parse::may_have_index(bytes)
}

/// Whether a seek index reaches to the end of its image.
pub fn is_whole_index(index: &[u8]) -> bool {
    index::is_whole(index)
}

/// Returns an error for a truncated file, which has no end-of-image marker.
pub fn check_end(bytes: &[u8]) -> Result<()> {
    if scan::has_end(bytes) { Ok(()) } else { Err(truncated()) }
}

/// The fewest bytes that an image with this header can take: an empty block is two Huffman codes of one bit (one in a
/// progressive file, whose other coefficients are coded in runs of blocks). Arithmetic coding has no such bound.
pub(crate) fn fewest_bytes(bytes: &[u8]) -> u64 {
    let Ok(header) = parse::parse(bytes) else { return fewest_bytes_by_turbo(bytes) };
    let used = &header.components[..header.count];
    let most = |factor: fn(&parse::ComponentSpec) -> u8| used.iter().map(factor).max().unwrap_or(1).max(1);
    let first = header.components[0];
    let side = |length: u32, own: u8, most: u8| u64::from(length) * u64::from(own) / u64::from(most);
    let (width, height) =
        (side(header.size.width, first.h, most(|c| c.h)), side(header.size.height, first.v, most(|c| c.v)));
    match header.process {
        Process::Sequential => width * height / 64 * 2 / 8,
        Process::Progressive => width * height / 64 / 8,
        Process::Lossless => width * height / 8,
        Process::Arithmetic => 0,
    }
}

/// The same for a header that only libjpeg-turbo reads; the sampling factors are unknown, so the smallest are assumed.
fn fewest_bytes_by_turbo(bytes: &[u8]) -> u64 {
    match turbo::header(bytes) {
        Ok(header) if !header.arithmetic => header.size.area() / 16 / 64 / 8,
        _ => 0,
    }
}

/// Decodes JPEGs. Owns all scratch memory: keep one per thread and reuse it.
pub struct Decoder {
    level: CpuLevel,
    pixel_limit: u64,
    tables: TableCache,
    scratch: SourceScratch,
    /// For the part of a scan that an index does not reach.
    rest: SourceScratch,
    pipeline: Pipeline,
    /// Coefficients of progressive files.
    store: progressive::Store,
    strip: Vec<u8>,
    recording: Recording,
    /// What the last decode recorded.
    recorded: Option<Vec<u8>>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder").field("level", &self.level).finish_non_exhaustive()
    }
}

/// A supported file, ready to decode.
struct Opened<'a> {
    header: ParsedMarkers,
    frame: Frame,
    /// From the scan's first byte to the end of the file.
    data: &'a [u8],
    identity: Identity,
}

impl Decoder {
    /// Creates a decoder with the best kernels of this machine.
    pub fn new() -> Self {
        Self::with_level(CpuLevel::detect())
    }

    /// Creates a decoder with the kernels of `level`, which must be [available](CpuLevel::available) here.
    pub fn with_level(level: CpuLevel) -> Self {
        let level = if CpuLevel::available().contains(&level) { level } else { CpuLevel::Scalar };
        Decoder {
            level,
            pixel_limit: DEFAULT_PIXEL_LIMIT,
            tables: TableCache::default(),
            scratch: SourceScratch::default(),
            rest: SourceScratch::default(),
            pipeline: Pipeline::default(),
            store: progressive::Store::default(),
            strip: Vec::new(),
            recording: Recording::Off,
            recorded: None,
        }
    }

    /// Refuses images of more pixels than this before allocating memory for them.
    pub fn with_pixel_limit(mut self, limit: u64) -> Self {
        self.pixel_limit = limit;
        self
    }

    /// Decodes the box `region` (in pixels of the image at `scale`) and passes its rows to `sink` in strips, top to
    /// bottom, each row once: `sink(y, strip)` where `y` counts from the region's top. A strip is small enough to
    /// still be in the second-level cache.
    ///
    /// `index` is the result of [`Decoder::build_index`] for these bytes; a wrong one is ignored.
    pub fn decode_region(
        &mut self,
        bytes: &[u8],
        index: Option<&[u8]>,
        region: Region,
        scale: Scale,
        layout: PixelLayout,
        sink: &mut dyn FnMut(u32, ImageRef<'_>),
    ) -> Result<Path> {
        layout.check_colour()?;
        let mut strip = std::mem::take(&mut self.strip);
        let mut target = SinkTarget { width: region.width, layout, buffer: &mut strip, sink };
        let done = self.decode(bytes, index, &[region], scale, &mut [&mut target]);
        self.strip = strip;
        done
    }

    /// Like [`Decoder::decode_region`], into an image of the region's size.
    pub fn decode_into(
        &mut self,
        bytes: &[u8],
        index: Option<&[u8]>,
        region: Region,
        scale: Scale,
        out: &mut ImageMut<'_>,
    ) -> Result<Path> {
        if out.size != region.size() {
            return Err(Error::Misuse("the output does not have the size of the region".into()));
        }
        // The fields of a view are public, so they are checked again.
        ImageMut::new(out.bytes, out.size, out.stride, out.layout)?.layout.check_colour()?;
        let mut target = ImageTarget { image: out };
        self.decode(bytes, index, &[region], scale, &mut [&mut target])
    }

    /// Decodes several regions of one image; parts that overlap are entropy-decoded once. Image `i` has the size
    /// of region `i`.
    pub fn decode_many(
        &mut self,
        bytes: &[u8],
        index: Option<&[u8]>,
        regions: &[Region],
        scale: Scale,
        out: &mut [ImageMut<'_>],
    ) -> Result<Path> {
        let fits = regions.len() == out.len() && regions.iter().zip(&*out).all(|(r, o)| r.size() == o.size);
        if !fits {
            return Err(Error::Misuse("the outputs do not have the sizes of the regions".into()));
        }
        for image in &mut *out {
            ImageMut::new(image.bytes, image.size, image.stride, image.layout)?.layout.check_colour()?;
        }
        let mut targets: Vec<_> = out.iter_mut().map(|image| ImageTarget { image }).collect();
        let mut targets: Vec<&mut dyn Target> = targets.iter_mut().map(|t| t as &mut dyn Target).collect();
        self.decode(bytes, index, regions, scale, &mut targets)
    }

    /// Builds a seek index for these bytes, to be stored beside them; `None` for files that cannot have one
    /// (progressive, arithmetic, CMYK, damaged) and those that need none because they have restart markers.
    pub fn build_index(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        self.index(bytes, Density::Dense)
    }

    /// The same with fewer checkpoints: about 1.2 % of an ImageNet file instead of 1.9 %. [`Decoder::record`] records
    /// such indexes.
    pub fn build_sparse_index(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        self.index(bytes, Density::Sparse)
    }

    fn index(&mut self, bytes: &[u8], density: Density) -> Option<Vec<u8>> {
        let opened = self.open(bytes).ok()?;
        if opened.header.restart_interval != 0 || !scan::has_end(opened.data) {
            return None;
        }
        self.tables.prepare(&opened.header).ok()?;
        let tables = self.tables.scan(&opened.header, &opened.frame)?;
        let walk = Walk::new(self.level, &opened.frame, 0, &tables, opened.data, &mut self.scratch).ok()?;
        let spacing = density.spacing(&opened.frame, opened.data.len());
        let collected = walk.recording(spacing).finish(&opened.frame, true).ok()?;
        index::write(opened.identity, &opened.frame, &collected)
    }

    /// Whether the following decodes record a seek index, for [`Decoder::take_index`].
    pub fn record(&mut self, recording: Recording) {
        self.recording = recording;
    }

    /// The index that the last decode recorded, if it knows more than the one that the decode was given.
    pub fn take_index(&mut self) -> Option<Vec<u8>> {
        self.recorded.take()
    }

    /// Like [`Decoder::decode_into`] without an index, but also builds one: for files that are read for the first
    /// time and whose index can be stored. Costs the entropy decoding of the rest of the scan.
    pub fn decode_into_and_index(
        &mut self,
        bytes: &[u8],
        region: Region,
        scale: Scale,
        out: &mut ImageMut<'_>,
    ) -> Result<(Path, Option<Vec<u8>>)> {
        let before = std::mem::replace(&mut self.recording, Recording::Whole);
        let done = self.decode_into(bytes, None, region, scale, out);
        self.recording = before;
        Ok((done?, self.take_index()))
    }

    /// Parses the file if it is supported and not over the limit.
    fn open<'a>(&self, bytes: &'a [u8]) -> Result<Opened<'a>, NotCovered> {
        self.open_parsed(bytes, parse::parse(bytes)?)
    }

    fn open_parsed<'a>(&self, bytes: &'a [u8], header: ParsedMarkers) -> Result<Opened<'a>, NotCovered> {
        let frame = Frame::new(&header)?;
        if frame.size.area() > self.pixel_limit {
            return Err(NotCovered);
        }
        let data = &bytes[header.data_start..];
        let length = u32::try_from(bytes.len()).map_err(|_| NotCovered)?;
        let identity = Identity { length, fingerprint: header.fingerprint };
        Ok(Opened { header, frame, data, identity })
    }

    fn decode(
        &mut self,
        bytes: &[u8],
        index: Option<&[u8]>,
        regions: &[Region],
        scale: Scale,
        targets: &mut [&mut dyn Target],
    ) -> Result<Path> {
        self.recorded = None;
        let opened = match parse::parse(bytes) {
            Ok(header) if header.process == Process::Progressive => {
                if self.decode_scans(bytes, header, regions, scale, targets).is_ok() {
                    return Ok(Path::Sequential);
                }
                None
            }
            Ok(header) => self.open_parsed(bytes, header).ok(),
            Err(NotCovered) => None,
        };
        let Some(opened) = opened else {
            return self.decode_by_turbo(bytes, regions, scale, targets, |_| 0);
        };
        let scaled = Scaled::new(&opened.frame, usize::from(scale.eighths()));
        for region in regions {
            region.check_inside(scaled.size)?;
        }
        let index = index.and_then(|bytes| Index::read(bytes, opened.identity, &opened.frame));
        if index.is_none() && !scan::has_end(opened.data) {
            return Err(truncated());
        }
        let path = if index.is_some() { Path::Indexed } else { Path::Sequential };
        if self.decode_here(&opened, index, &scaled, regions, targets).is_ok() {
            return Ok(path);
        }
        let rows = regions.iter().enumerate().map(|(i, region)| self.pipeline.delivered(i, region.y));
        let delivered: Vec<u32> = rows.collect();
        self.decode_by_turbo(bytes, regions, scale, targets, |i| delivered[i])
    }

    fn decode_here(
        &mut self,
        opened: &Opened<'_>,
        index: Option<Index<'_>>,
        scaled: &Scaled,
        regions: &[Region],
        targets: &mut [&mut dyn Target],
    ) -> Result<(), Irregular> {
        let (header, frame, level) = (&opened.header, &opened.frame, self.level);
        self.pipeline.reset(regions);
        self.tables.prepare(header).map_err(|NotCovered| Irregular)?;
        let tables = self.tables.scan(header, frame).ok_or(Irregular)?;
        let wanted = Wanted { level, frame, scaled, regions };
        let (scratch, data) = (&mut self.scratch, opened.data);
        let walk = match index {
            Some(index) if wanted.last_row() <= index.rows() => {
                let mut jumps = Jumps::new(level, &tables, index, data, scratch);
                return self.pipeline.run(&wanted, &mut jumps, targets);
            }
            Some(index) => {
                let jumps = Jumps::new(level, &tables, index, data, scratch);
                let walk = Walk::after(level, frame, &tables, &index, data, &mut self.rest)?;
                let walk = if self.recording == Recording::Off { walk } else { walk.continuing(&index) };
                let mut both = JumpsThenWalk { jumps, walk, rows: index.rows() };
                self.pipeline.run(&wanted, &mut both, targets)?;
                both.walk
            }
            None => {
                let interval = header.restart_interval as usize;
                let mut walk = Walk::new(level, frame, interval, &tables, data, scratch)?;
                if self.recording != Recording::Off {
                    walk = walk.recording(Density::Sparse.spacing(frame, data.len()));
                }
                self.pipeline.run(&wanted, &mut walk, targets)?;
                walk
            }
        };
        if self.recording != Recording::Off {
            // Damage after the region is no reason to refuse the region; there is only no index then.
            let collected = walk.finish(frame, self.recording == Recording::Whole).ok();
            self.recorded = collected.and_then(|found| index::write(opened.identity, frame, &found));
        }
        Ok(())
    }

    /// Decodes a progressive file. No row is delivered before all scans turned out regular.
    fn decode_scans(
        &mut self,
        bytes: &[u8],
        mut header: ParsedMarkers,
        regions: &[Region],
        scale: Scale,
        targets: &mut [&mut dyn Target],
    ) -> Result<(), Irregular> {
        let frame = Frame::progressive(&header).map_err(|NotCovered| Irregular)?;
        let scaled = &Scaled::new(&frame, usize::from(scale.eighths()));
        // The fallback has the errors for these.
        let inside = regions.iter().all(|region| region.check_inside(scaled.size).is_ok());
        if !inside || frame.size.area() > self.pixel_limit || !scan::has_end(&bytes[header.data_start..]) {
            return Err(Irregular);
        }
        let (level, store) = (self.level, &mut self.store);
        progressive::read(level, bytes, &mut header, &frame, scaled, regions, store)?;
        let wanted = Wanted { level, frame: &frame, scaled, regions };
        self.pipeline.run(&wanted, store, targets)
    }

    /// Decodes the remaining rows with libjpeg-turbo.
    fn decode_by_turbo(
        &mut self,
        bytes: &[u8],
        regions: &[Region],
        scale: Scale,
        targets: &mut [&mut dyn Target],
        delivered: impl Fn(usize) -> u32,
    ) -> Result<Path> {
        let header = probe(bytes)?;
        if header.size.area() > self.pixel_limit {
            let Size { width, height } = header.size;
            return Err(Error::TooLarge { width, height, limit: self.pixel_limit });
        }
        if !scan::has_end(bytes) {
            return Err(truncated());
        }
        for (i, (region, target)) in regions.iter().zip(targets).enumerate() {
            region.check_inside(scale.apply(header.size))?;
            let skip = delivered(i);
            let rest = Region::new(region.x, region.y + skip, region.width, region.height - skip);
            if rest.height == 0 {
                continue;
            }
            let layout = target.layout();
            let (room, stride) = target.rows(skip, rest.height);
            let mut out = ImageMut::new(room, rest.size(), stride, layout)?;
            turbo::decode_region(bytes, rest, scale.eighths(), self.pixel_limit, &mut out)?;
            target.done(skip, rest.height);
        }
        Ok(Path::Turbo)
    }
}

fn truncated() -> Error {
    Error::Truncated { codec: "jpeg", reason: "no end-of-image marker".into() }
}
