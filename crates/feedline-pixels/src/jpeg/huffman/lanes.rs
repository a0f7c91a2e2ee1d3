//! Several pieces of a scan decoded in one loop.
//!
//! Reading Huffman codes is one long chain: where a code starts depends on the length of the one before. A processor
//! could do three or four times the work in that time, and does when given independent chains. So lanes take turns,
//! coefficient by coefficient; a lane whose piece is finished takes the next from the queue.

use super::{AcTable, Block};
use super::{Irregular, LAST, OVERRUN, Predictors, Reader, ScanTables, coefficient, difference};

/// A piece of a scan: whole MCUs from a known state on.
pub(crate) struct Job<'a> {
    /// Unstuffed bytes from the one with the first bit on, padding included.
    pub(crate) data: &'a [u8],
    /// Bits of the first byte that belong to the piece before.
    pub(crate) skip: u32,
    /// Bits that belong to this piece, counted from the first byte; more may not be consumed.
    pub(crate) limit: usize,
    pub(crate) predictors: Predictors,
    /// Where the coefficients go: zeroed blocks in MCU order.
    pub(crate) blocks: &'a mut [Block],
}

struct Lane<'a, 't> {
    reader: Reader<'a>,
    index: u32,
    block: &'a mut Block,
    rest: std::slice::IterMut<'a, Block>,
    ac: &'t AcTable,
    slot: usize,
    predictors: Predictors,
    overrun: u32,
    limit: usize,
}

/// Decodes all jobs.
///
/// Three lanes are best on the CPUs tried; the state of four no longer fits the registers.
#[inline(always)]
pub(super) fn decode_jobs<'a>(
    tables: &ScanTables<'_>,
    jobs: impl Iterator<Item = Job<'a>>,
) -> Result<(), Irregular> {
    let mut jobs = jobs.filter(|job| !job.blocks.is_empty());
    let Some(a) = jobs.next() else { return Ok(()) };
    let a = Lane::start(a, tables)?;
    let Some(b) = jobs.next() else { return run([a], tables, &mut jobs).map(|_| ()) };
    let b = Lane::start(b, tables)?;
    let two = match jobs.next() {
        None => [a, b],
        Some(c) => {
            let ([a, b, c], done) = run([a, b, Lane::start(c, tables)?], tables, &mut jobs)?;
            match done {
                0 => [b, c],
                1 => [a, c],
                _ => [a, b],
            }
        }
    };
    let ([a, b], done) = run(two, tables, &mut jobs)?;
    run([if done == 0 { b } else { a }], tables, &mut jobs).map(|_| ())
}

/// Runs lanes until one has nothing left to do, and says which.
#[inline(always)]
fn run<'a, 't, const N: usize>(
    mut lanes: [Lane<'a, 't>; N],
    tables: &'t ScanTables<'_>,
    jobs: &mut impl Iterator<Item = Job<'a>>,
) -> Result<([Lane<'a, 't>; N], usize), Irregular> {
    // Indices are written out, so that each lane's state is plain local variables to the compiler.
    macro_rules! turn {
        ($i:literal) => {
            if $i < N && lanes[$i % N].turn() && !lanes[$i % N].next(tables, jobs)? {
                return Ok((lanes, $i));
            }
        };
    }
    loop {
        lanes[0].reader.refill()?;
        if N > 1 {
            lanes[1 % N].reader.refill()?;
        }
        if N > 2 {
            lanes[2 % N].reader.refill()?;
        }
        turn!(0);
        turn!(1);
        turn!(2);
        turn!(0);
        turn!(1);
        turn!(2);
    }
}

impl<'a, 't> Lane<'a, 't> {
    fn start(job: Job<'a>, tables: &'t ScanTables<'_>) -> Result<Self, Irregular> {
        let mut rest = job.blocks.iter_mut();
        let block = rest.next().ok_or(Irregular)?;
        let mut lane = Lane {
            reader: Reader::new(job.data, job.skip)?,
            index: 0,
            block,
            rest,
            ac: tables.slots[0].ac,
            slot: 0,
            predictors: job.predictors,
            overrun: 0,
            limit: job.limit,
        };
        lane.first(tables)?;
        Ok(lane)
    }

    /// One coefficient; true when it was the block's last.
    #[inline(always)]
    fn turn(&mut self) -> bool {
        coefficient(&mut self.reader, self.ac, &mut self.index, self.block);
        self.index >= LAST
    }

    /// On to the next block, of this job or the next; false when there is none.
    #[inline(always)]
    fn next(
        &mut self,
        tables: &'t ScanTables<'_>,
        jobs: &mut impl Iterator<Item = Job<'a>>,
    ) -> Result<bool, Irregular> {
        self.overrun |= self.index & OVERRUN;
        let Some(block) = self.rest.next() else {
            return self.next_job(tables, jobs);
        };
        self.block = block;
        self.slot += 1;
        if self.slot == tables.slots.len() {
            self.slot = 0;
        }
        self.first(tables)?;
        Ok(true)
    }

    #[cold]
    #[inline(never)]
    fn next_job(
        &mut self,
        tables: &'t ScanTables<'_>,
        jobs: &mut impl Iterator<Item = Job<'a>>,
    ) -> Result<bool, Irregular> {
        if self.overrun != 0 || self.reader.position() > self.limit {
            return Err(Irregular);
        }
        match jobs.next() {
            None => Ok(false),
            Some(job) => {
                *self = Lane::start(job, tables)?;
                Ok(true)
            }
        }
    }

    /// The block's DC coefficient. Leaves enough bits for one coefficient more.
    #[inline(always)]
    fn first(&mut self, tables: &'t ScanTables<'_>) -> Result<(), Irregular> {
        let slot = &tables.slots[self.slot];
        self.reader.refill()?;
        let predictor = &mut self.predictors[slot.component];
        *predictor = predictor.wrapping_add(difference(&mut self.reader, slot.dc)?);
        self.block[0] = *predictor as i16;
        self.ac = slot.ac;
        self.index = 0;
        Ok(())
    }
}
