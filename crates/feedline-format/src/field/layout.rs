//! Order of the dimensions of an image tensor.

use feedline_pixels::TensorLayout;
use serde::{Deserialize, Serialize};

/// Order of an image tensor's dimensions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "&'static str", try_from = "String")]
pub enum MemoryFormat {
    /// `[batch, channel, row, column]`.
    #[default]
    ChannelsFirst,
    /// `[batch, row, column, channel]` in memory.
    ChannelsLast,
}

/// Name, and the kernels' own value, in the order of the variants.
static TABLE: [(&str, TensorLayout); 2] =
    [("channels_first", TensorLayout::ChannelsFirst), ("channels_last", TensorLayout::ChannelsLast)];

super::spelled_by_name!(MemoryFormat, "memory format");

impl MemoryFormat {
    /// Both orders.
    pub const ALL: [MemoryFormat; 2] = [MemoryFormat::ChannelsFirst, MemoryFormat::ChannelsLast];

    /// The name as users write it.
    pub fn name(self) -> &'static str {
        TABLE[self as usize].0
    }

    /// The pixel kernels' value for it.
    pub fn kernel(self) -> TensorLayout {
        TABLE[self as usize].1
    }
}
