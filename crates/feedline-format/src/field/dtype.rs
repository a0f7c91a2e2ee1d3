//! Element types of arrays and tensors.

use arrow_schema::DataType;
use feedline_pixels::Dtype;
use serde::{Deserialize, Serialize};

/// Element type of an array or a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "&'static str", try_from = "String")]
#[expect(missing_docs, reason = "the names say it")]
pub enum DType {
    Bool,
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    F16,
    BF16,
    F32,
    F64,
}

/// Everything that is known about an element type.
struct Row {
    dtype: DType,
    /// As NumPy spells it (`bfloat16` is torch's and `ml_dtypes`').
    name: &'static str,
    size: usize,
    /// NumPy's type string, little-endian; `None` where NumPy lacks the type.
    numpy: Option<&'static str>,
    /// The `DLDataTypeCode`.
    dlpack: u8,
    /// Arrow has no bfloat16: the 16 bits are stored as unsigned integers, and the field's metadata says what they
    /// are.
    arrow: DataType,
    /// The code in a dynamic array of an MDS shard.
    mds: Option<u8>,
    /// litdata's numbers for NumPy's types; the last one is what its writer uses.
    litdata_numpy: &'static [u32],
    /// litdata's numbers for torch's types; the last one is what its writer uses.
    litdata_torch: &'static [u32],
    /// Name of the type in the pixel kernels, if they can write it.
    kernel: Option<Dtype>,
}

/// Sorted by the codes in packs, which is also the order of the variants.
#[rustfmt::skip]
static TABLE: [Row; 13] = [
    // litdata before 0.2.12 used numpy 1's own list, which has two more types before bool: 15.
    Row { dtype: DType::Bool, name: "bool",     size: 1, numpy: Some("|b1"), dlpack: 6, arrow: DataType::Boolean, mds: None,     litdata_numpy: &[15, 13], litdata_torch: &[19],     kernel: None },
    Row { dtype: DType::U8,   name: "uint8",    size: 1, numpy: Some("|u1"), dlpack: 1, arrow: DataType::UInt8,   mds: Some(8),  litdata_numpy: &[4],      litdata_torch: &[11],     kernel: Some(Dtype::U8) },
    Row { dtype: DType::U16,  name: "uint16",   size: 2, numpy: Some("<u2"), dlpack: 1, arrow: DataType::UInt16,  mds: Some(16), litdata_numpy: &[5],      litdata_torch: &[20],     kernel: None },
    Row { dtype: DType::U32,  name: "uint32",   size: 4, numpy: Some("<u4"), dlpack: 1, arrow: DataType::UInt32,  mds: Some(32), litdata_numpy: &[6],      litdata_torch: &[],       kernel: None },
    Row { dtype: DType::U64,  name: "uint64",   size: 8, numpy: Some("<u8"), dlpack: 1, arrow: DataType::UInt64,  mds: Some(64), litdata_numpy: &[7],      litdata_torch: &[],       kernel: None },
    Row { dtype: DType::I8,   name: "int8",     size: 1, numpy: Some("|i1"), dlpack: 0, arrow: DataType::Int8,    mds: Some(9),  litdata_numpy: &[0],      litdata_torch: &[12],     kernel: None },
    Row { dtype: DType::I16,  name: "int16",    size: 2, numpy: Some("<i2"), dlpack: 0, arrow: DataType::Int16,   mds: Some(17), litdata_numpy: &[1],      litdata_torch: &[13, 14], kernel: None },
    Row { dtype: DType::I32,  name: "int32",    size: 4, numpy: Some("<i4"), dlpack: 0, arrow: DataType::Int32,   mds: Some(33), litdata_numpy: &[2],      litdata_torch: &[15, 16], kernel: None },
    Row { dtype: DType::I64,  name: "int64",    size: 8, numpy: Some("<i8"), dlpack: 0, arrow: DataType::Int64,   mds: Some(65), litdata_numpy: &[3],      litdata_torch: &[17, 18], kernel: None },
    Row { dtype: DType::F16,  name: "float16",  size: 2, numpy: Some("<f2"), dlpack: 2, arrow: DataType::Float16, mds: Some(18), litdata_numpy: &[8],      litdata_torch: &[8, 9],   kernel: Some(Dtype::F16) },
    Row { dtype: DType::BF16, name: "bfloat16", size: 2, numpy: None,        dlpack: 4, arrow: DataType::UInt16,  mds: None,     litdata_numpy: &[],       litdata_torch: &[10],     kernel: Some(Dtype::BF16) },
    Row { dtype: DType::F32,  name: "float32",  size: 4, numpy: Some("<f4"), dlpack: 2, arrow: DataType::Float32, mds: Some(34), litdata_numpy: &[9],      litdata_torch: &[0, 1],   kernel: Some(Dtype::F32) },
    Row { dtype: DType::F64,  name: "float64",  size: 8, numpy: Some("<f8"), dlpack: 2, arrow: DataType::Float64, mds: Some(66), litdata_numpy: &[10],     litdata_torch: &[2, 3],   kernel: None },
];

super::spelled_by_name!(DType, "element type");

impl DType {
    /// All element types, sorted by their codes in packs.
    pub const ALL: [DType; 13] = [
        DType::Bool,
        DType::U8,
        DType::U16,
        DType::U32,
        DType::U64,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::F64,
    ];

    fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// The first type whose row matches.
    fn find(like: impl Fn(&Row) -> bool) -> Option<Self> {
        TABLE.iter().find(|row| like(row)).map(|row| row.dtype)
    }

    /// Bytes per element.
    #[inline]
    pub fn size(self) -> usize {
        self.row().size
    }

    /// The name as NumPy spells it (`bfloat16` is torch's and `ml_dtypes`').
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The code in a pack's index.
    pub(crate) fn code(self) -> u64 {
        self as u64
    }

    /// The type with this code in a pack's index.
    pub(crate) fn from_code(code: u64) -> Option<Self> {
        DType::ALL.get(usize::try_from(code).ok()?).copied()
    }

    /// NumPy's type string (`<f4`), if NumPy has the type.
    pub fn numpy(self) -> Option<&'static str> {
        self.row().numpy
    }

    /// The type of a NumPy type string without its byte order (`f4`).
    pub fn from_numpy(kind_and_size: &str) -> Option<Self> {
        DType::find(|row| row.numpy.is_some_and(|text| &text[1..] == kind_and_size))
    }

    /// The `DLDataTypeCode` of DLPack.
    pub fn dlpack(self) -> u8 {
        self.row().dlpack
    }

    /// The Arrow type in which elements are stored.
    pub(crate) fn arrow(self) -> DataType {
        self.row().arrow.clone()
    }

    /// The element type that Arrow stores as `stored`.
    pub(crate) fn from_arrow(stored: &DataType) -> Option<Self> {
        DType::find(|row| row.arrow == *stored)
    }

    /// The code in a dynamic array of an MDS shard, if MDS has the type.
    pub(crate) fn mds(self) -> Option<u8> {
        self.row().mds
    }

    /// The type with this code in an MDS shard.
    pub(crate) fn from_mds(code: u8) -> Option<Self> {
        DType::find(|row| row.mds == Some(code))
    }

    /// litdata's numbers for this type: NumPy's and torch's. The last one is what its writer uses.
    pub(crate) fn litdata(self) -> (&'static [u32], &'static [u32]) {
        (self.row().litdata_numpy, self.row().litdata_torch)
    }

    /// Name of this type in the pixel kernels; `None` if images cannot have it.
    pub fn kernel(self) -> Option<Dtype> {
        self.row().kernel
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_the_order_of_the_variants() {
        for (at, dtype) in DType::ALL.into_iter().enumerate() {
            assert_eq!((dtype as usize, TABLE[at].dtype), (at, dtype));
            assert_eq!(DType::from_code(dtype.code()), Some(dtype));
            assert_eq!(DType::from_name(dtype.name()), Some(dtype));
            if let Some(text) = dtype.numpy() {
                assert_eq!(DType::from_numpy(&text[1..]), Some(dtype));
                assert!(text.ends_with(&dtype.size().to_string()));
            }
            assert!(dtype.kernel().is_none_or(|kernel| kernel.bytes() == dtype.size()));
            assert!(dtype.mds().is_none_or(|code| DType::from_mds(code) == Some(dtype)));
            assert!(DType::from_arrow(&dtype.arrow()).is_some_and(|found| found.size() == dtype.size()));
        }
        assert_eq!(DType::from_code(13), None);
        assert_eq!(DType::from_arrow(&DataType::UInt16), Some(DType::U16));
    }

    #[test]
    fn names_are_those_in_json() {
        assert_eq!(serde_json::to_string(&DType::BF16).unwrap(), "\"bfloat16\"");
        assert_eq!(serde_json::from_str::<DType>("\"int64\"").unwrap(), DType::I64);
        let message = serde_json::from_str::<DType>("\"f32\"").unwrap_err().to_string();
        assert!(message.contains("'f32' is not a known element type; use one of bool, uint8"), "{message}");
    }
}
