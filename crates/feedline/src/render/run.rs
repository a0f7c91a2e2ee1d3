//! Runs programs: the first pass gets its rows from a decoder or from decoded pixels; later passes work
//! on dense buffers of four bytes per pixel. The last pass writes tensor elements.

use feedline_pixels::{
    Error, Filter, Finish, Geometry, ImageMut, ImageRef, Mixture, OpponentRunner, PixelLayout, Renderer,
    Rendering, Result, RowOp, Size, WholeRunner, fit,
};

use crate::transform::{Chain, Program, Segment};

/// Scratch memory for running programs.
#[derive(Debug, Default)]
pub(crate) struct Runner {
    renderer: Renderer,
    whole: WholeRunner,
    pixels: Vec<u8>,
    spare: Vec<u8>,
    /// For mixtures: the sum, and the image before a chain changes it.
    mixture: Mixture,
    opponent: OpponentRunner,
    original: Vec<u8>,
}

/// A pass that resamples, with the operations on single pixels that are part of it, and the segments after it.
struct Pass<'p> {
    geometry: &'p Geometry,
    filter: Filter,
    rows: &'p [RowOp],
    rest: &'p [Segment],
}

impl<'p> Pass<'p> {
    /// The first pass of `segments`.
    fn of(program: &'p Program, segments: &'p [Segment]) -> Result<Self> {
        let [Segment::Resample { geometry, filter }, rest @ ..] = segments else {
            return Err(Error::Misuse("a program begins with its geometry".to_owned()));
        };
        let (rows, rest): (&[RowOp], _) = match rest {
            [Segment::Rows(range), rest @ ..] => (&program.rows[range.clone()], rest),
            _ => (&[], rest),
        };
        Ok(Pass { geometry, filter: *filter, rows, rest })
    }
}

impl Runner {
    /// Starts the first pass, with its geometry at the scale of the decoded pixels.
    pub(super) fn begin<'a>(
        &'a mut self,
        program: &'a Program,
        geometry: &Geometry,
        finish: &Finish,
        out: &'a mut [u8],
    ) -> Result<Rendering<'a>> {
        let pass = Pass::of(program, &program.segments)?;
        let Runner { renderer, pixels, .. } = self;
        if pass.rest.is_empty() && program.opponent.is_none() {
            return renderer.begin_with(geometry, pass.filter, pass.rows, finish, out);
        }
        fit(pixels, dense(geometry.output()), 0)?;
        renderer.begin_pixels(geometry, pass.filter, pass.rows, pixels)
    }

    /// Runs everything after the first pass.
    pub(super) fn end(&mut self, program: &Program, finish: &Finish, out: &mut [u8]) -> Result<()> {
        let Pass { geometry, rest, .. } = Pass::of(program, &program.segments)?;
        if !rest.is_empty() || program.opponent.is_some() {
            self.rest(program, rest, geometry.output(), finish, out)?;
        }
        for erasure in &program.erasures {
            finish.overwrite(out, program.output, erasure.region, erasure.value.values())?;
        }
        Ok(())
    }

    /// Runs a whole program on decoded pixels. `origin` is the position of their corner in the image, `geometry` the
    /// first pass's geometry at their scale.
    pub(crate) fn run(
        &mut self,
        program: &Program,
        geometry: &Geometry,
        image: ImageRef<'_>,
        origin: (u32, u32),
        finish: &Finish,
        out: &mut [u8],
    ) -> Result<()> {
        if let Some(done) = self.run_packed(program, image, finish, out) {
            return done;
        }
        let mut rendering = self.begin(program, geometry, finish, out)?;
        rendering.push(origin, image)?;
        rendering.finish()?;
        self.end(program, finish, out)
    }

    /// Runs one operation on packed bytes, straight from the image to the result. `None` if the program is another.
    fn run_packed(
        &mut self,
        program: &Program,
        image: ImageRef<'_>,
        finish: &Finish,
        out: &mut [u8],
    ) -> Option<Result<()>> {
        let [Segment::Resample { geometry, .. }, Segment::Whole(op)] = &program.segments[..] else {
            return None;
        };
        let plain = program.opponent.is_none() && program.erasures.is_empty() && finish.is_packed_bytes();
        if !plain || image.layout != PixelLayout::Rgb || *geometry != Geometry::identity(image.size) {
            return None;
        }
        let (size, layout) = (program.output, image.layout);
        match ImageMut::new(out, size, size.width as usize * layout.bytes(), layout) {
            Ok(mut to) => self.whole.run_packed(op, image, &mut to),
            Err(error) => Some(Err(error)),
        }
    }

    fn rest(
        &mut self,
        program: &Program,
        mut rest: &[Segment],
        mut size: Size,
        finish: &Finish,
        out: &mut [u8],
    ) -> Result<()> {
        let Runner { whole, pixels, .. } = &mut *self;
        while let Some((segment, after)) = rest.split_first() {
            match segment {
                Segment::Whole(op) => size = whole.run(op, pixels, size)?,
                Segment::Warp(warp) => {
                    whole.warp(warp, pixels, size)?;
                    size = warp.output;
                }
                Segment::Rows(range) if after.is_empty() => {
                    let rows = &program.rows[range.clone()];
                    let whole = Geometry::identity(size);
                    return self.last(program, &whole, Filter::Bilinear, rows, finish, out);
                }
                Segment::Rows(range) => whole.rows(&program.rows[range.clone()], pixels, size),
                Segment::Resample { .. } => return self.resample(program, rest, finish, out),
                Segment::Mix { own, chains } => {
                    self.mix(*own, chains, size)?;
                    return self.rest(program, after, size, finish, out);
                }
            }
            rest = after;
        }
        self.last(program, &Geometry::identity(size), Filter::Bilinear, &[], finish, out)
    }

    /// Mixes the current pixels with the result of each chain.
    fn mix(&mut self, own: f32, chains: &[Chain], size: Size) -> Result<()> {
        self.mixture.begin(&self.pixels, own)?;
        let Some((last, others)) = chains.split_last() else {
            self.mixture.finish(&mut self.pixels, 0.0);
            return Ok(());
        };
        if !others.is_empty() {
            fit(&mut self.original, self.pixels.len(), 0)?;
            self.original.copy_from_slice(&self.pixels);
        }
        for chain in others {
            self.run_chain(&chain.program, size)?;
            self.mixture.add(&self.pixels, chain.weight);
            self.pixels.clone_from(&self.original);
        }
        self.run_chain(&last.program, size)?;
        self.mixture.finish(&mut self.pixels, last.weight);
        Ok(())
    }

    /// Runs a program on the current pixels, which keep their size and stay pixels.
    fn run_chain(&mut self, program: &Program, mut size: Size) -> Result<()> {
        let Runner { whole, pixels, .. } = self;
        for segment in &program.segments {
            match segment {
                Segment::Whole(op) => size = whole.run(op, pixels, size)?,
                Segment::Warp(warp) => {
                    whole.warp(warp, pixels, size)?;
                    size = warp.output;
                }
                Segment::Rows(range) => whole.rows(&program.rows[range.clone()], pixels, size),
                Segment::Resample { geometry, .. } if *geometry == Geometry::identity(size) => {}
                Segment::Resample { .. } | Segment::Mix { .. } => {
                    return Err(Error::Misuse("a chain of a mixture neither resizes nor mixes".to_owned()));
                }
            }
        }
        Ok(())
    }

    /// Runs `segments`, which start with a resampling of the current pixels.
    fn resample(
        &mut self,
        program: &Program,
        segments: &[Segment],
        finish: &Finish,
        out: &mut [u8],
    ) -> Result<()> {
        let Pass { geometry, filter, rows, rest } = Pass::of(program, segments)?;
        if rest.is_empty() {
            return self.last(program, geometry, filter, rows, finish, out);
        }
        let Runner { renderer, pixels, spare, .. } = &mut *self;
        fit(spare, dense(geometry.output()), 0)?;
        let mut rendering = renderer.begin_pixels(geometry, filter, rows, spare)?;
        rendering.push((0, 0), view(pixels, geometry.image)?)?;
        rendering.finish()?;
        std::mem::swap(pixels, spare);
        self.rest(program, rest, geometry.output(), finish, out)
    }

    fn last(
        &mut self,
        program: &Program,
        geometry: &Geometry,
        filter: Filter,
        rows: &[RowOp],
        finish: &Finish,
        out: &mut [u8],
    ) -> Result<()> {
        if let Some(op) = &program.opponent {
            let Runner { renderer, pixels, spare, opponent, .. } = &mut *self;
            fit(spare, dense(geometry.output()), 0)?;
            let mut rendering = renderer.begin_pixels(geometry, filter, rows, spare)?;
            rendering.push((0, 0), view(pixels, geometry.image)?)?;
            rendering.finish()?;
            return opponent.run(op, view(spare, geometry.output())?, finish, out);
        }
        let mut rendering = self.renderer.begin_with(geometry, filter, rows, finish, out)?;
        rendering.push((0, 0), view(&self.pixels, geometry.image)?)?;
        rendering.finish()
    }
}

fn dense(size: Size) -> usize {
    size.area() as usize * 4
}

fn view(bytes: &[u8], size: Size) -> Result<ImageRef<'_>> {
    ImageRef::new(bytes, size, size.width as usize * 4, PixelLayout::Rgbx)
}
