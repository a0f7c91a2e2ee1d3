//! Actions → as few passes over the pixels as possible.
//!
//! Crops, resizes and flips compose into one [`Geometry`] as long as they are in the order crop, resize, window. A list
//! in another order (two resizes in a row, a window that extends beyond an earlier window) gets a further pass; all but
//! the last make 8-bit pixels in between, as torchvision on PIL images does. Operations on single pixels are part of
//! the pass before them; neighbouring tables become one table. A flip moves in front of operations that do not depend
//! on it.

use feedline_pixels::{Filter, Geometry, Region, RowOp, Size, Warp, WholeOp, Window};

use super::program::{Chain, Erasure, Program, Segment};

/// A program under construction.
pub(crate) struct Fusion<'a> {
    program: &'a mut Program,
    /// The geometry being composed, unless it is already among the segments.
    now: Geometry,
    filter: Filter,
    /// Whether `now` already resizes: a second resize needs its own pass.
    resized: bool,
    /// Index of `now` among the segments, once something follows it.
    placed: Option<usize>,
    /// Whether everything after it gives mirrored results for mirrored images.
    mirrors: bool,
    size: Size,
}

impl<'a> Fusion<'a> {
    pub(super) fn new(program: &'a mut Program, image: Size) -> Self {
        program.clear();
        Fusion {
            program,
            now: Geometry::identity(image),
            filter: Filter::Bilinear,
            resized: false,
            placed: None,
            mirrors: true,
            size: image,
        }
    }

    pub(super) fn finish(mut self) {
        if self.placed.is_none() {
            self.push();
        }
        self.program.output = self.size;
    }

    /// The current size.
    pub(crate) fn size(&self) -> Size {
        self.size
    }

    /// Makes `part` (in current coordinates) the new image.
    pub(crate) fn crop(&mut self, part: Window, fill: [u8; 3]) {
        self.begin_geometry();
        self.size = part.size();
        let part = self.unflipped(part);
        let image = self.now.output();
        let inside = part.x >= 0
            && part.y >= 0
            && i64::from(part.x) + i64::from(part.width) <= i64::from(image.width)
            && i64::from(part.y) + i64::from(part.height) <= i64::from(image.height);
        let untouched = self.now.window == Window::whole(self.now.resized);
        if inside && untouched && !self.resized {
            let crop = &mut self.now.crop;
            *crop = Region::new(crop.x + part.x as u32, crop.y + part.y as u32, part.width, part.height);
            self.now.resized = crop.size();
            self.now.window = Window::whole(crop.size());
            return;
        }
        let covered = self.now.covered().map(Region::size) == Some(self.now.window.size());
        // Beyond an earlier window there must be fill, not the image's pixels outside that window; and two fills
        // of different colours do not fit into one geometry.
        if (!inside && !untouched) || (!covered && fill != self.now.fill) {
            let flips = (self.now.flip_horizontal, self.now.flip_vertical);
            (self.now.flip_horizontal, self.now.flip_vertical) = (false, false);
            self.next_pass();
            (self.now.flip_horizontal, self.now.flip_vertical) = flips;
            self.now.fill = fill;
            self.now.window = part;
            return;
        }
        if !inside {
            self.now.fill = fill;
        }
        let window = self.now.window;
        self.now.window = Window::new(window.x + part.x, window.y + part.y, part.width, part.height);
    }

    /// Resizes the current image.
    pub(crate) fn resize(&mut self, size: Size, filter: Filter) {
        if size == self.size {
            return;
        }
        self.begin_geometry();
        self.size = size;
        if self.resized || self.now.window != Window::whole(self.now.resized) {
            self.next_pass();
        }
        self.now.resized = size;
        self.now.window = Window::whole(size);
        self.filter = filter;
        self.resized = true;
    }

    /// Mirrors left and right.
    pub(crate) fn flip_horizontal(&mut self) {
        self.flip(|geometry| geometry.flip_horizontal ^= true);
    }

    /// Mirrors top and bottom.
    pub(crate) fn flip_vertical(&mut self) {
        self.flip(|geometry| geometry.flip_vertical ^= true);
    }

    /// Adds an operation on single pixels.
    pub(crate) fn row(&mut self, op: RowOp) {
        self.place();
        let Program { segments, rows, .. } = &mut *self.program;
        let Some(Segment::Rows(range)) = segments.last_mut() else {
            segments.push(Segment::Rows(rows.len()..rows.len() + 1));
            return rows.push(op);
        };
        if let (Some(RowOp::Table(before)), RowOp::Table(table)) = (rows.last_mut(), &op) {
            *before = before.then(table);
            return;
        }
        range.end += 1;
        rows.push(op);
    }

    /// Adds an operation on the whole image that gives mirrored results for mirrored images.
    pub(crate) fn whole(&mut self, op: WholeOp) {
        self.place();
        self.program.segments.push(Segment::Whole(op));
    }

    /// Adds an operation on the whole image that depends on left and right, or changes its size.
    pub(crate) fn whole_placed(&mut self, op: WholeOp, size: Size) {
        self.whole(op);
        self.mirrors = false;
        self.size = size;
    }

    /// Adds a mixture of the results of chains.
    pub(crate) fn mix(&mut self, own: f32, chains: Vec<Chain>) {
        self.place();
        self.mirrors = false;
        self.program.segments.push(Segment::Mix { own, chains });
    }

    /// Adds a warp.
    pub(crate) fn warp(&mut self, warp: Warp) {
        self.place();
        self.mirrors = false;
        self.size = warp.output;
        self.program.segments.push(Segment::Warp(warp));
    }

    /// Drops all boxes but these, by their numbers in the sample.
    pub(crate) fn keep_boxes(&mut self, boxes: &[u32]) {
        match &mut self.program.boxes {
            Some(kept) => kept.retain(|number| boxes.contains(number)),
            none => *none = Some(boxes.to_vec()),
        }
    }

    /// Adds a box of the finished tensor to erase.
    pub(crate) fn erase(&mut self, erasure: Erasure) {
        self.program.erasures.push(erasure);
    }

    /// Flips come last in a geometry; a box requested after a flip is mirrored before it.
    fn unflipped(&self, part: Window) -> Window {
        let image = self.now.output();
        let mirror = |flip: bool, start: i32, length: u32, limit: u32| {
            if flip { limit as i32 - start - length as i32 } else { start }
        };
        Window {
            x: mirror(self.now.flip_horizontal, part.x, part.width, image.width),
            y: mirror(self.now.flip_vertical, part.y, part.height, image.height),
            ..part
        }
    }

    /// Flips the open geometry, or the one before operations that do not depend on it.
    fn flip(&mut self, flip: impl Fn(&mut Geometry)) {
        if let (Some(at), true) = (self.placed, self.mirrors)
            && let Segment::Resample { geometry, .. } = &mut self.program.segments[at]
        {
            return flip(geometry);
        }
        self.begin_geometry();
        flip(&mut self.now);
    }

    /// Makes sure that a geometry is open: starts a new one if something followed the last.
    fn begin_geometry(&mut self) {
        if self.placed.take().is_some() {
            self.start(self.size);
        }
    }

    /// Puts the open geometry among the segments, so that something can follow it.
    fn place(&mut self) {
        if self.placed.is_none() {
            self.push();
            self.placed = Some(self.program.segments.len() - 1);
            self.mirrors = true;
        }
    }

    fn next_pass(&mut self) {
        self.push();
        self.start(self.now.output());
    }

    fn start(&mut self, image: Size) {
        self.now = Geometry::identity(image);
        self.filter = Filter::Bilinear;
        self.resized = false;
    }

    fn push(&mut self) {
        self.program.segments.push(Segment::Resample { geometry: self.now, filter: self.filter });
    }
}

#[cfg(test)]
mod tests {
    use feedline_pixels::{Region, Size, Table, WholeOp, Window};

    use super::super::ops::*;
    use super::super::{ImagePlan, Params, Program, SampleKey, Segment, Transform};
    use super::*;
    use crate::field::{DType, MemoryFormat};

    const KEY: SampleKey = SampleKey { seed: 1, epoch: 2, sample: 3 };

    fn program(ops: &[Transform], image: Size) -> Program {
        let plan = ImagePlan::new("image", 0, ops, DType::F32, MemoryFormat::ChannelsFirst).unwrap();
        let (mut params, mut program) = (Params::default(), Program::default());
        plan.draw(image, KEY, &mut params).unwrap();
        params.plan(image, &mut program);
        program
    }

    fn geometries(ops: &[Transform], image: Size) -> Vec<Geometry> {
        let geometry = |segment| match segment {
            Segment::Resample { geometry, .. } => geometry,
            other => panic!("{other:?}"),
        };
        program(ops, image).segments.into_iter().map(geometry).collect()
    }

    #[test]
    fn classic_recipes_need_one_pass() {
        let train = [Transform::random_resized_crop(224), Transform::random_horizontal_flip()];
        let validation = [Transform::resize_shorter(256), Transform::center_crop(224)];
        let image = Size::new(500, 375);
        assert_eq!(geometries(&train, image).len(), 1);
        let [geometry] = geometries(&validation, image)[..] else { panic!("one pass") };
        assert_eq!(geometry.resized, Size::new(341, 256));
        assert_eq!(geometry.window, Window::new(58, 16, 224, 224));
    }

    #[test]
    fn crops_before_a_resize_move_the_source_box() {
        let ops = [Transform::center_crop(100), Transform::center_crop(50), Transform::resize_shorter(20)];
        let [geometry] = geometries(&ops, Size::new(300, 200))[..] else { panic!("one pass") };
        assert_eq!(geometry.crop, Region::new(125, 75, 50, 50));
        assert_eq!(geometry.resized, Size::new(20, 20));
    }

    #[test]
    fn a_second_resize_is_a_second_pass() {
        let ops = [Transform::resize_shorter(100), Transform::center_crop(80), Transform::resize_shorter(40)];
        let all = geometries(&ops, Size::new(300, 200));
        assert_eq!(all.len(), 2);
        assert_eq!(all[1].image, Size::new(80, 80));
    }

    #[test]
    fn a_crop_after_a_flip_is_mirrored() {
        let crop = Transform::from(RandomCrop { size: (10, 10), ..RandomCrop::default() });
        let image = Size::new(100, 10);
        let with = |p| geometries(&[RandomHorizontalFlip { p }.into(), crop.clone()], image);
        let ([after], [plain]) = (&with(1.0)[..], &with(0.0)[..]) else { panic!("one pass") };
        assert_eq!(after.crop.x, 90 - plain.crop.x);
        assert!(after.flip_horizontal);
    }

    #[test]
    fn outside_of_a_crop_is_fill_not_image() {
        let pad = Pad { padding: (5, 5, 5, 5), fill: [9; 3], padding_mode: PaddingMode::Constant };
        let ops = [Transform::resize_shorter(100), Transform::center_crop(50), pad.into()];
        let all = geometries(&ops, Size::new(200, 200));
        assert_eq!(all.len(), 2);
        assert_eq!(all[1].window, Window::new(-5, -5, 60, 60));
    }

    #[test]
    fn tables_are_joined_and_flips_moved_before_them() {
        let image = Size::new(50, 40);
        let mut program = Program::default();
        let mut fusion = Fusion::new(&mut program, image);
        fusion.row(RowOp::Table(Table::of(|x| x / 2)));
        fusion.row(RowOp::Table(Table::of(|x| 255 - x)));
        fusion.whole(WholeOp::Equalize);
        fusion.flip_horizontal();
        fusion.finish();
        let [Segment::Resample { geometry, .. }, Segment::Rows(rows), Segment::Whole(_)] =
            &program.segments[..]
        else {
            panic!("{program:?}")
        };
        assert!(geometry.flip_horizontal);
        assert_eq!((rows.clone(), program.rows.len()), (0..1, 1));
    }

    #[test]
    fn geometry_after_pixels_is_a_new_pass() {
        let mut program = Program::default();
        let mut fusion = Fusion::new(&mut program, Size::new(50, 40));
        fusion.whole(WholeOp::Equalize);
        fusion.crop(Window::new(1, 1, 10, 10), [0; 3]);
        fusion.finish();
        assert_eq!(program.segments.len(), 3);
        assert_eq!(program.output, Size::new(10, 10));
    }
}
