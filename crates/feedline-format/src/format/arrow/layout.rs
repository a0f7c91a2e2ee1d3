//! Assigns nodes and buffers of a record batch to columns: Arrow numbers them by walking the schema.

use arrow_schema::{DataType, Field};

use super::message::Batch;

/// Maximum depth of nesting.
const MAX_DEPTH: usize = 32;

/// One node of a column's tree.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) data_type: DataType,
    /// Index of its entry in [`Batch::nodes`].
    pub(super) number: usize,
    /// Index of its first buffer, not counting those of views before it.
    first_buffer: usize,
    /// Number of view columns before it: each may have any number of buffers.
    views_before: usize,
    pub(super) children: Vec<Node>,
    /// The id of its dictionary.
    pub(super) dictionary: Option<i64>,
}

/// The trees of all columns, and the number of nodes, buffers and view columns.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) columns: Vec<Node>,
    nodes: usize,
    buffers: usize,
    views: usize,
}

struct Counter<'a> {
    nodes: usize,
    buffers: usize,
    views: usize,
    dictionary_ids: std::slice::Iter<'a, i64>,
}

impl Layout {
    /// The layout of these fields, whose dictionaries have these ids.
    pub(super) fn new<'f>(
        fields: impl Iterator<Item = &'f Field>,
        dictionary_ids: &[i64],
    ) -> Result<Self, String> {
        let mut counter = Counter { nodes: 0, buffers: 0, views: 0, dictionary_ids: dictionary_ids.iter() };
        let columns =
            fields.map(|field| counter.node(field.data_type(), 0)).collect::<Result<Vec<_>, _>>()?;
        Ok(Layout { columns, nodes: counter.nodes, buffers: counter.buffers, views: counter.views })
    }

    /// Whether the batch has the nodes and buffers of the schema.
    pub(super) fn check(&self, batch: &Batch) -> Result<(), String> {
        let views: u64 =
            batch.variadic.iter().try_fold(0u64, |sum, n| sum.checked_add(*n)).unwrap_or(u64::MAX);
        let buffers = (self.buffers as u64).checked_add(views);
        if batch.nodes.len() != self.nodes
            || Some(batch.buffers.len() as u64) != buffers
            || batch.variadic.len() != self.views
        {
            return Err(format!(
                "a record batch of {} nodes and {} buffers, but its schema has {} and {}",
                batch.nodes.len(),
                batch.buffers.len(),
                self.nodes,
                self.buffers
            ));
        }
        let wrong = self.columns.iter().find(|column| batch.nodes[column.number].0 != batch.rows);
        wrong.map_or(Ok(()), |column| {
            let length = batch.nodes[column.number].0;
            Err(format!("a column of {length} rows in a record batch of {}", batch.rows))
        })
    }
}

impl Counter<'_> {
    fn node(&mut self, data_type: &DataType, depth: usize) -> Result<Node, String> {
        use DataType as T;
        if depth > MAX_DEPTH {
            return Err(format!("columns nested more than {MAX_DEPTH} deep"));
        }
        check_type(data_type)?;
        let mut node = Node {
            data_type: data_type.clone(),
            number: self.nodes,
            first_buffer: self.buffers,
            views_before: self.views,
            children: Vec::new(),
            dictionary: None,
        };
        self.nodes += 1;
        self.buffers += own_buffers(data_type);
        let children: Vec<&DataType> = match data_type {
            T::List(item) | T::LargeList(item) | T::ListView(item) | T::LargeListView(item) => {
                vec![item.data_type()]
            }
            T::FixedSizeList(item, _) | T::Map(item, _) => vec![item.data_type()],
            T::Struct(fields) => fields.iter().map(|f| f.data_type()).collect(),
            T::Union(fields, _) => fields.iter().map(|(_, f)| f.data_type()).collect(),
            T::RunEndEncoded(ends, values) => vec![ends.data_type(), values.data_type()],
            T::Dictionary(..) => {
                let id = self.dictionary_ids.next().ok_or("a dictionary column without a dictionary id")?;
                node.dictionary = Some(*id);
                Vec::new()
            }
            T::BinaryView | T::Utf8View => {
                self.views += 1;
                Vec::new()
            }
            _ => Vec::new(),
        };
        node.children =
            children.into_iter().map(|c| self.node(c, depth + 1)).collect::<Result<Vec<_>, _>>()?;
        Ok(node)
    }
}

/// Refuses types that a damaged schema may contain and that make Arrow's own code panic.
fn check_type(data_type: &DataType) -> Result<(), String> {
    use DataType as T;
    let possible = match data_type {
        T::FixedSizeBinary(each) | T::FixedSizeList(_, each) => *each >= 0,
        T::Map(entries, _) => matches!(entries.data_type(), T::Struct(fields) if fields.len() == 2),
        T::Decimal32(precision, scale) => decimal_fits(*precision, *scale, 9),
        T::Decimal64(precision, scale) => decimal_fits(*precision, *scale, 18),
        T::Decimal128(precision, scale) => decimal_fits(*precision, *scale, 38),
        T::Decimal256(precision, scale) => decimal_fits(*precision, *scale, 76),
        T::Dictionary(keys, _) => keys.is_dictionary_key_type(),
        _ => true,
    };
    if possible { Ok(()) } else { Err(format!("a column of the impossible type {data_type}")) }
}

fn decimal_fits(precision: u8, scale: i8, most: u8) -> bool {
    (1..=most).contains(&precision) && scale.unsigned_abs() <= precision
}

fn own_buffers(data_type: &DataType) -> usize {
    use DataType as T;
    match data_type {
        T::Null | T::RunEndEncoded(..) => 0,
        T::FixedSizeList(..) | T::Struct(_) | T::Union(_, arrow_schema::UnionMode::Sparse) => 1,
        T::Utf8 | T::LargeUtf8 | T::Binary | T::LargeBinary | T::ListView(_) | T::LargeListView(_) => 3,
        // Validity and one more. The buffers with the bytes of views come after these.
        _ => 2,
    }
}

impl Node {
    /// Index of buffer `which` of this node in the batch's list.
    pub(super) fn buffer(&self, batch: &Batch, which: usize) -> usize {
        let views: u64 = batch.variadic.iter().take(self.views_before).sum();
        self.first_buffer + views as usize + which
    }

    /// Number of buffers after the views of a view column.
    pub(super) fn variadic(&self, batch: &Batch) -> usize {
        batch.variadic.get(self.views_before).map_or(0, |n| *n as usize)
    }

    /// Whether any row of this node is null.
    pub(super) fn has_nulls(&self, batch: &Batch) -> bool {
        batch.nodes[self.number].1 > 0
    }
}
