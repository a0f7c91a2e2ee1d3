//! The columns of an Arrow table: their types, and their nodes and buffers in a record batch.

use arrow_ipc::{Field, Precision, Schema, Type};

use crate::sample::Kind;

/// One column, or the elements of a nested one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) shape: Shape,
    /// Index of its node in each record batch.
    pub(super) node: usize,
    /// Index of its first buffer: validity, for all but nulls.
    pub(super) buffer: usize,
}

/// The type of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Shape {
    Null,
    Bool,
    Int {
        bytes: usize,
        signed: bool,
    },
    Float {
        bytes: usize,
    },
    /// Offsets (64-bit if `wide`), then the bytes of all values.
    Variable {
        wide: bool,
        text: bool,
    },
    Fixed {
        bytes: usize,
    },
    List {
        wide: bool,
        element: Box<Column>,
    },
    FixedList {
        length: usize,
        element: Box<Column>,
    },
    /// Offsets, then structs of key and value.
    Map {
        entries: Box<Column>,
    },
    Struct(Vec<Column>),
}

impl Shape {
    /// The kind of field for such a column; nulls fit any kind.
    pub(super) fn kind(&self) -> Option<Kind> {
        Some(match self {
            Shape::Null => return None,
            Shape::Bool | Shape::Int { .. } => Kind::Int,
            Shape::Float { .. } => Kind::Float,
            Shape::Variable { text: true, .. } => Kind::Text,
            Shape::Variable { text: false, .. } | Shape::Fixed { .. } => Kind::Bytes,
            _ => Kind::Json,
        })
    }
}

/// A column that is not a struct, and the structs around it: its value is null if one of them is.
#[derive(Debug)]
pub(super) struct Flat {
    /// Dotted name.
    pub(super) name: String,
    pub(super) column: Column,
    /// Node and validity buffer of each struct around it.
    pub(super) parents: Vec<(usize, usize)>,
}

/// A table's columns, and the number of nodes and buffers in each of its record batches.
#[derive(Debug, Default)]
pub(super) struct Columns {
    pub(super) flat: Vec<Flat>,
    pub(super) nodes: usize,
    pub(super) buffers: usize,
}

impl Columns {
    /// Structs become dotted names, like containers in LitData's own layout.
    pub(super) fn new(schema: Schema<'_>) -> Result<Self, String> {
        if schema.endianness() != arrow_ipc::Endianness::Little {
            return Err("the table is big-endian, which is not supported".to_owned());
        }
        let mut columns = Columns::default();
        for field in schema.fields().into_iter().flatten() {
            let column = columns.column(field)?;
            flatten(column, "", &[], &mut columns.flat);
        }
        Ok(columns)
    }

    fn column(&mut self, field: Field<'_>) -> Result<Column, String> {
        let name = field.name().unwrap_or_default().to_owned();
        let (node, buffer) = (self.nodes, self.buffers);
        self.nodes += 1;
        if field.dictionary().is_some() {
            return Err(format!("column '{name}' is dictionary-encoded, which is not supported"));
        }
        let shape = self
            .shape(field)
            .map_err(|kind| format!("column '{name}' has the Arrow type {kind}, which is not supported"))?;
        Ok(Column { name, shape, node, buffer })
    }

    fn shape(&mut self, field: Field<'_>) -> Result<Shape, String> {
        let kind = field.type_type();
        let unsupported = || kind.variant_name().unwrap_or("unknown").to_owned();
        let (buffers, shape) = match kind {
            Type::Null => (0, Shape::Null),
            Type::Bool => (2, Shape::Bool),
            Type::Int => (2, integer(field).ok_or_else(unsupported)?),
            Type::FloatingPoint => (2, float(field).ok_or_else(unsupported)?),
            Type::Utf8 => (3, Shape::Variable { wide: false, text: true }),
            Type::LargeUtf8 => (3, Shape::Variable { wide: true, text: true }),
            Type::Binary => (3, Shape::Variable { wide: false, text: false }),
            Type::LargeBinary => (3, Shape::Variable { wide: true, text: false }),
            Type::FixedSizeBinary => {
                let width =
                    field.type_as_fixed_size_binary().and_then(|t| usize::try_from(t.byteWidth()).ok());
                (2, Shape::Fixed { bytes: width.ok_or_else(unsupported)? })
            }
            Type::List | Type::LargeList | Type::Map => {
                self.buffers += 2;
                let element = Box::new(self.only_child(field).ok_or_else(unsupported)??);
                let shape = match kind {
                    Type::Map => Shape::Map { entries: element },
                    _ => Shape::List { wide: kind == Type::LargeList, element },
                };
                (0, shape)
            }
            Type::FixedSizeList => {
                self.buffers += 1;
                let length = field.type_as_fixed_size_list().and_then(|t| usize::try_from(t.listSize()).ok());
                let element = Box::new(self.only_child(field).ok_or_else(unsupported)??);
                (0, Shape::FixedList { length: length.ok_or_else(unsupported)?, element })
            }
            Type::Struct_ => {
                self.buffers += 1;
                let children = field.children().into_iter().flatten().map(|child| self.column(child));
                (0, Shape::Struct(children.collect::<Result<_, _>>()?))
            }
            _ => return Err(unsupported()),
        };
        self.buffers += buffers;
        Ok(shape)
    }

    fn only_child(&mut self, field: Field<'_>) -> Option<Result<Column, String>> {
        let children = field.children()?;
        (children.len() == 1).then(|| self.column(children.get(0)))
    }
}

fn integer(field: Field<'_>) -> Option<Shape> {
    let kind = field.type_as_int()?;
    let bytes = match kind.bitWidth() {
        8 => 1,
        16 => 2,
        32 => 4,
        64 => 8,
        _ => return None,
    };
    Some(Shape::Int { bytes, signed: kind.is_signed() })
}

fn float(field: Field<'_>) -> Option<Shape> {
    let bytes = match field.type_as_floating_point()?.precision() {
        Precision::HALF => 2,
        Precision::SINGLE => 4,
        Precision::DOUBLE => 8,
        _ => return None,
    };
    Some(Shape::Float { bytes })
}

fn flatten(column: Column, prefix: &str, parents: &[(usize, usize)], flat: &mut Vec<Flat>) {
    let name = if prefix.is_empty() { column.name.clone() } else { format!("{prefix}.{}", column.name) };
    match column.shape {
        Shape::Struct(children) => {
            let parents = [parents, &[(column.node, column.buffer)]].concat();
            for child in children {
                flatten(child, &name, &parents, flat);
            }
        }
        _ => flat.push(Flat { name, column, parents: parents.to_vec() }),
    }
}
