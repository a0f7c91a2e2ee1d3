//! Decodes several pieces of a scan in one loop.
//!
//! Reading Huffman codes is one long dependency chain: the start of a code depends on the length of the one before. A
//! processor can do three or four times the work in that time if it gets independent chains. So lanes take turns,
//! coefficient by coefficient; a lane that has finished its piece takes the next from the queue.

use super::{
    AcTable, Block, Irregular, OVERRUN, Predictors, Reader, ScanTables, coefficients, difference, natural,
};

/// A piece of a scan: whole MCUs from a known state on.
pub(crate) struct Job<'a> {
    /// Unstuffed bytes starting at the one with the first bit, padding included.
    pub(crate) data: &'a [u8],
    /// Bits of the first byte that belong to the piece before.
    pub(crate) skip: u32,
    /// Number of bits that belong to this piece, counted from the first byte; more must not be consumed.
    pub(crate) limit: usize,
    pub(crate) predictors: &'a mut Predictors,
    /// Destination of the coefficients, in MCU order.
    pub(crate) blocks: &'a mut [Block],
}

struct Lane<'a, 't> {
    reader: Reader<'a>,
    index: u32,
    block: &'a mut Block,
    rest: std::slice::IterMut<'a, Block>,
    ac: &'t AcTable,
    slot: usize,
    /// Stored elsewhere because it is indexed by component: that would keep the whole lane out of registers.
    predictors: &'a mut Predictors,
    overrun: u32,
    limit: usize,
}

/// Decodes all jobs.
///
/// Two lanes are best here: the state of three does not fit the registers of x86-64, and its spills cost more than the
/// third chain brings.
#[inline(always)]
pub(super) fn decode_jobs<'a>(
    tables: &ScanTables<'_>,
    jobs: impl Iterator<Item = Job<'a>>,
) -> Result<(), Irregular> {
    let mut jobs = jobs.filter(|job| !job.blocks.is_empty());
    let mut start = || jobs.next().map(|job| Lane::start(job, tables)).transpose();
    let Some(a) = start()? else { return Ok(()) };
    let Some(b) = start()? else { return run([a], tables).map(|_| ()) };
    let mut two = [a, b];
    loop {
        let done;
        (two, done) = run(two, tables)?;
        let Some(lane) = start()? else {
            let [a, b] = two;
            return run([if done == 0 { b } else { a }], tables).map(|_| ());
        };
        match done {
            0 => two[0] = lane,
            _ => two[1] = lane,
        }
    }
}

/// Runs lanes until one has finished its job, and returns which. The others are between two coefficients.
#[inline(always)]
fn run<'a, 't, const N: usize>(
    mut lanes: [Lane<'a, 't>; N],
    tables: &'t ScanTables<'_>,
) -> Result<([Lane<'a, 't>; N], usize), Irregular> {
    // Indices are written out and everything is inlined, so that each lane's state can stay in registers.
    macro_rules! turn {
        ($i:literal) => {
            if $i < N && lanes[$i % N].turn()? && !lanes[$i % N].next(tables)? {
                lanes[$i % N].check()?;
                return Ok((lanes, $i));
            }
        };
    }
    loop {
        lanes[0].reader.refill();
        if N > 1 {
            lanes[1 % N].reader.refill();
        }
        turn!(0);
        turn!(1);
        turn!(0);
        turn!(1);
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

    /// Whether a finished job was regular.
    #[inline(always)]
    fn check(&self) -> Result<(), Irregular> {
        if self.overrun != 0 || self.reader.position() > self.limit { Err(Irregular) } else { Ok(()) }
    }

    /// Decodes one or two coefficients; returns true if they were the block's last.
    #[inline(always)]
    fn turn(&mut self) -> Result<bool, Irregular> {
        let block = &mut *self.block;
        coefficients(&mut self.reader, self.ac, &mut self.index, |index, value| {
            block[natural(index)] = value;
        })
    }

    /// Moves to the next block; returns false if there is none.
    #[inline(always)]
    fn next(&mut self, tables: &'t ScanTables<'_>) -> Result<bool, Irregular> {
        self.overrun |= self.index & OVERRUN;
        let Some(block) = self.rest.next() else { return Ok(false) };
        self.block = block;
        self.slot += 1;
        if self.slot == tables.slots.len() {
            self.slot = 0;
        }
        self.first(tables)?;
        Ok(true)
    }

    /// Decodes the block's DC coefficient. Leaves enough bits for one more coefficient.
    #[inline(always)]
    fn first(&mut self, tables: &'t ScanTables<'_>) -> Result<(), Irregular> {
        let slot = &tables.slots[self.slot];
        self.reader.begin_block()?;
        self.reader.refill();
        *self.block = [0; 64];
        let predictor = &mut self.predictors[slot.component];
        *predictor = predictor.wrapping_add(difference(&mut self.reader, slot.dc)?);
        self.block[0] = *predictor as i16;
        self.ac = slot.ac;
        self.index = 0;
        Ok(())
    }
}
