//! The arithmetic of the kernels for x86-64, once for registers of any width: each 128-bit piece of a register belongs to
//! one block, so no instruction here moves values between pieces.

const CONST_BITS: i32 = 13;
pub(super) const PASS1_BITS: i32 = 2;
pub(super) const SHIFT_1: i32 = CONST_BITS - PASS1_BITS;
pub(super) const SHIFT_2: i32 = CONST_BITS + PASS1_BITS + 3;

/// Defines the functions of a kernel. Its module has the intrinsics under their names without a width; `$shift` is the
/// type in which it has the number of bits of a shift.
macro_rules! arithmetic {
    ($features:literal, $shift:ty) => {
        pub(super) type Rows = [Register; 8];

        /// Blocks with only a DC coefficient: one value everywhere.
        #[target_feature(enable = $features)]
        fn constant(flat: Register) -> [Register; 4] {
            let spread = shuffle_epi8(flat, set1_epi16(0x0100));
            let rounded = srai_epi16::<5>(adds_epi16(spread, set1_epi16(16)));
            let bytes = xor(packs_epi16(rounded, rounded), set1_epi8(-128));
            [bytes; 4]
        }

        /// Two 16-bit factors for `madd`, the first for the even lanes.
        #[target_feature(enable = $features)]
        pub(super) fn factors(even: i32, odd: i32) -> Register {
            set1_epi32((odd << 16) | (even & 0xFFFF))
        }

        #[target_feature(enable = $features)]
        pub(super) fn interleave(a: Register, b: Register) -> [Register; 2] {
            [unpacklo_epi16(a, b), unpackhi_epi16(a, b)]
        }

        #[target_feature(enable = $features)]
        pub(super) fn madd(pairs: [Register; 2], factors: Register) -> [Register; 2] {
            [madd_epi16(pairs[0], factors), madd_epi16(pairs[1], factors)]
        }

        #[target_feature(enable = $features)]
        pub(super) fn add(a: [Register; 2], b: [Register; 2]) -> [Register; 2] {
            [add_epi32(a[0], b[0]), add_epi32(a[1], b[1])]
        }

        #[target_feature(enable = $features)]
        pub(super) fn sub(a: [Register; 2], b: [Register; 2]) -> [Register; 2] {
            [sub_epi32(a[0], b[0]), sub_epi32(a[1], b[1])]
        }

        /// `v << CONST_BITS` in 32 bits, plus the rounding of the final shift (every output contains this term exactly once).
        #[target_feature(enable = $features)]
        fn widen<const SHIFT: $shift>(v: Register) -> [Register; 2] {
            let zero = setzero();
            let half = set1_epi32(1 << (SHIFT - 1));
            let wide = interleave(zero, v);
            [add_epi32(srai_epi32::<3>(wide[0]), half), add_epi32(srai_epi32::<3>(wide[1]), half)]
        }

        #[target_feature(enable = $features)]
        fn descale<const SHIFT: $shift>(v: [Register; 2]) -> Register {
            packs_epi32(srai_epi32::<SHIFT>(v[0]), srai_epi32::<SHIFT>(v[1]))
        }

        /// One 8-point pass down the columns; the scalar kernel's `eight`, as many columns at once as a register has.
        #[target_feature(enable = $features)]
        fn pass<const SHIFT: $shift>(v: Rows) -> Rows {
            let sum = widen::<SHIFT>(add_epi16(v[0], v[4]));
            let difference = widen::<SHIFT>(sub_epi16(v[0], v[4]));
            let v26 = interleave(v[2], v[6]);
            let tmp3 = madd(v26, factors(4433 + 6270, 4433));
            let tmp2 = madd(v26, factors(4433, 4433 - 15137));
            let (t10, t13) = (add(sum, tmp3), sub(sum, tmp3));
            let (t11, t12) = (add(difference, tmp2), sub(difference, tmp2));

            let z34 = interleave(add_epi16(v[7], v[3]), add_epi16(v[5], v[1]));
            let y3 = madd(z34, factors(9633 - 16069, 9633));
            let y4 = madd(z34, factors(9633, 9633 - 3196));
            let v71 = interleave(v[7], v[1]);
            let v53 = interleave(v[5], v[3]);
            let o0 = add(madd(v71, factors(2446 - 7373, -7373)), y3);
            let o1 = add(madd(v53, factors(16819 - 20995, -20995)), y4);
            let o2 = add(madd(v53, factors(-20995, 25172 - 20995)), y3);
            let o3 = add(madd(v71, factors(-7373, 12299 - 7373)), y4);
            [
                descale::<SHIFT>(add(t10, o3)),
                descale::<SHIFT>(add(t11, o2)),
                descale::<SHIFT>(add(t12, o1)),
                descale::<SHIFT>(add(t13, o0)),
                descale::<SHIFT>(sub(t13, o0)),
                descale::<SHIFT>(sub(t12, o1)),
                descale::<SHIFT>(sub(t11, o2)),
                descale::<SHIFT>(sub(t10, o3)),
            ]
        }

        #[target_feature(enable = $features)]
        fn transpose(v: Rows) -> Rows {
            // Pairs of rows, then of pairs, then of fours; the digits in the comments are row and column.
            let a0 = unpacklo_epi16(v[0], v[1]); // 00 10 01 11 02 12 03 13
            let a1 = unpackhi_epi16(v[0], v[1]); // 04 14 05 15 06 16 07 17
            let a2 = unpacklo_epi16(v[2], v[3]);
            let a3 = unpackhi_epi16(v[2], v[3]);
            let a4 = unpacklo_epi16(v[4], v[5]);
            let a5 = unpackhi_epi16(v[4], v[5]);
            let a6 = unpacklo_epi16(v[6], v[7]);
            let a7 = unpackhi_epi16(v[6], v[7]);
            let b0 = unpacklo_epi32(a0, a2); // 00 10 20 30 01 11 21 31
            let b1 = unpackhi_epi32(a0, a2); // 02 12 22 32 03 13 23 33
            let b2 = unpacklo_epi32(a1, a3);
            let b3 = unpackhi_epi32(a1, a3);
            let b4 = unpacklo_epi32(a4, a6);
            let b5 = unpackhi_epi32(a4, a6);
            let b6 = unpacklo_epi32(a5, a7);
            let b7 = unpackhi_epi32(a5, a7);
            [
                unpacklo_epi64(b0, b4),
                unpackhi_epi64(b0, b4),
                unpacklo_epi64(b1, b5),
                unpackhi_epi64(b1, b5),
                unpacklo_epi64(b2, b6),
                unpackhi_epi64(b2, b6),
                unpacklo_epi64(b3, b7),
                unpackhi_epi64(b3, b7),
            ]
        }

        /// Columns of 16-bit values to rows of samples: narrowed first, so that the transposition moves bytes.
        #[target_feature(enable = $features)]
        fn to_samples(c: Rows) -> [Register; 4] {
            let p04 = packs_epi16(c[0], c[4]);
            let p26 = packs_epi16(c[2], c[6]);
            let p15 = packs_epi16(c[1], c[5]);
            let p37 = packs_epi16(c[3], c[7]);
            let t02 = unpacklo_epi8(p04, p26); // columns 0 and 2, rows 0 to 7
            let t46 = unpackhi_epi8(p04, p26);
            let t13 = unpacklo_epi8(p15, p37);
            let t57 = unpackhi_epi8(p15, p37);
            let left_upper = unpacklo_epi8(t02, t13); // columns 0 to 3 of rows 0 to 3
            let left_lower = unpackhi_epi8(t02, t13);
            let right_upper = unpacklo_epi8(t46, t57);
            let right_lower = unpackhi_epi8(t46, t57);
            let center = set1_epi8(-128);
            [
                xor(unpacklo_epi32(left_upper, right_upper), center),
                xor(unpackhi_epi32(left_upper, right_upper), center),
                xor(unpacklo_epi32(left_lower, right_lower), center),
                xor(unpackhi_epi32(left_lower, right_lower), center),
            ]
        }
    };
}
pub(super) use arithmetic;
