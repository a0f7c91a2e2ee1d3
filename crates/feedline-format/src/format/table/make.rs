//! Makes a table from columns: which columns are paths, which is the label, what the fields are called.

use std::sync::Arc;

use super::super::ReadingOptions;
use super::super::folder::is_image_name;
use super::column::Column;
use super::files::{Files, Places};
use super::{Field, Table};
use crate::error::{Error, Location, Result};
use crate::sample::{FieldSpec, Fingerprint, Kind, Schema};
use crate::source::Source;

/// Number of values inspected to distinguish paths from other text.
const EXAMINED: usize = 100;
/// Columns of text with these names contain class names.
const LABELS: [&str; 9] =
    ["label", "labels", "class", "class_name", "cls", "target", "category", "label_name", "classname"];
/// The field with the paths themselves, and the field with the images of a column of that name.
const PATH: &str = "path";
const IMAGE: &str = "image";

/// Inputs for making a table.
pub(super) struct TableBuilder<'a> {
    pub(super) name: &'static str,
    pub(super) place: Location,
    pub(super) options: &'a ReadingOptions,
    /// Whether a table without images is a mistake.
    pub(super) needs_paths: bool,
    /// Class names, where they are given.
    pub(super) classes: Option<Vec<String>>,
}

impl TableBuilder<'_> {
    /// The table of these columns, with paths relative to `root`.
    pub(super) fn table(self, mut columns: Vec<Arc<Column>>, root: Arc<dyn Source>) -> Result<Table> {
        self.check_schema(&columns)?;
        let paths: Vec<usize> = (0..columns.len()).filter(|n| self.is_paths(&columns[*n])).collect();
        if paths.is_empty() && self.needs_paths {
            return Err(self.without_paths(&columns));
        }
        if let Some(column) = paths.iter().map(|n| &columns[*n]).find(|c| is_image_name(&c.name)) {
            let reason = format!("line 1 has no column names: '{}' is a file", column.name);
            return Err(self.wrong(reason).with_hint("add a line such as path,label at the top"));
        }
        let classes = self.number_labels(&mut columns, &paths)?;
        let mut places = Places::new(root, self.options.storage.clone());
        let (mut files, mut problems) = (Vec::new(), Vec::new());
        for path in &paths {
            files.push(Files::find(&columns[*path], &mut places, &mut problems)?);
        }
        let (fields, specs) = fields(&columns, &paths);
        let schema = Schema { fields: specs, classes };
        let rows = columns.first().map_or(0, |column| column.rows);
        let fingerprint = fingerprint(&columns, &files);
        let TableBuilder { name, place, .. } = self;
        Ok(Table { name, place, schema, fields, columns, files, places, rows, fingerprint, problems })
    }

    fn wrong(&self, reason: impl Into<String>) -> Error {
        Error::data(self.place.clone(), reason)
    }

    fn check_schema(&self, columns: &[Arc<Column>]) -> Result<()> {
        for (name, kind) in &self.options.schema {
            let Some(column) = columns.iter().find(|column| column.name == *name) else {
                let known: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
                let reason = format!("there is no column '{name}'; there are {}", known.join(", "));
                return Err(Error::option("schema", reason));
            };
            let fits =
                column.kind == *kind || matches!((column.kind, *kind), (Kind::Text, Kind::Image | Kind::Int));
            if !fits {
                let reason = format!("column '{name}' holds {:?}, which is not {kind:?}", column.kind);
                return Err(Error::option("schema", reason));
            }
        }
        Ok(())
    }

    fn is_paths(&self, column: &Column) -> bool {
        match self.options.schema.get(&column.name) {
            Some(kind) => *kind == Kind::Image && column.kind == Kind::Text,
            None if column.kind != Kind::Text => false,
            None => {
                let mut some = column.texts().filter(|text| !text.is_empty()).take(EXAMINED).peekable();
                some.peek().is_some() && some.all(is_image_name)
            }
        }
    }

    fn without_paths(&self, columns: &[Arc<Column>]) -> Error {
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        let hint = "a column of paths ends in .jpg, .png and so on in every row; \
                    use schema={\"column\": \"image\"} if the names tell nothing";
        if columns.first().is_some_and(|column| column.rows == 0) {
            return self.wrong(format!("no row below the column names: {}", names.join(", ")));
        }
        self.wrong(format!("no column holds paths of images; the columns are {}", names.join(", ")))
            .with_hint(hint)
    }

    /// Replaces the label column's names by numbers. Returns the names: the given ones, or all that occur, sorted.
    fn number_labels(&self, columns: &mut [Arc<Column>], paths: &[usize]) -> Result<Option<Vec<String>>> {
        let asked = |column: &Column| self.options.schema.get(&column.name).copied();
        let text = |n: &usize| columns[*n].kind == Kind::Text && !paths.contains(n);
        let given: Vec<usize> =
            (0..columns.len()).filter(text).filter(|n| asked(&columns[*n]) == Some(Kind::Int)).collect();
        let usual = || {
            let named = |n: &usize| LABELS.contains(&columns[*n].name.to_lowercase().as_str());
            let free = |n: &usize| asked(&columns[*n]).is_none();
            (0..columns.len()).filter(text).find(|n| named(n) && free(n))
        };
        let label = match given.as_slice() {
            [] => usual(),
            [only] => Some(*only),
            [first, second, ..] => {
                let (first, second) = (&columns[*first].name, &columns[*second].name);
                let reason =
                    format!("'{first}' and '{second}' contain text; only one column can be the class");
                return Err(Error::option("schema", reason));
            }
        };
        let Some(label) = label else { return Ok(self.classes.clone()) };
        let names = self.classes.clone().unwrap_or_else(|| {
            let all: std::collections::BTreeSet<&str> = columns[label].texts().collect();
            all.into_iter().map(str::to_owned).collect()
        });
        columns[label] = Arc::new(columns[label].numbered(&names).map_err(|reason| self.wrong(reason))?);
        Ok(Some(names))
    }
}

/// The fields: images first, then everything else, paths last.
fn fields(columns: &[Arc<Column>], paths: &[usize]) -> (Vec<Field>, Vec<FieldSpec>) {
    let taken = |name: &str| columns.iter().any(|column| column.name == name);
    let mut made: Vec<(Field, FieldSpec)> = Vec::new();
    for (number, path) in paths.iter().enumerate() {
        let column = &columns[*path];
        let name = if column.name == PATH && !taken(IMAGE) { IMAGE } else { &column.name };
        let optional = (0..column.rows).any(|row| column.text(row).is_empty());
        made.push((Field::Files(*path, number), FieldSpec::new(name, Kind::Image).optional(optional)));
    }
    for (number, column) in columns.iter().enumerate().filter(|(number, _)| !paths.contains(number)) {
        let spec = FieldSpec::new(&column.name, column.kind).optional(column.has_missing());
        made.push((Field::Column(number), spec));
    }
    for path in paths {
        let name = match paths {
            [_] if columns[*path].name == PATH || !taken(PATH) => PATH.to_owned(),
            _ => format!("{}.{PATH}", columns[*path].name),
        };
        made.push((Field::Column(*path), FieldSpec::new(name, Kind::Text)));
    }
    made.into_iter().unzip()
}

fn fingerprint(columns: &[Arc<Column>], files: &[Files]) -> Fingerprint {
    let mut hasher = blake3::Hasher::new();
    for column in columns {
        column.hash(&mut hasher);
    }
    for list in files {
        let rows = columns.first().map_or(0, |column| column.rows);
        for seen in (0..rows).filter_map(|row| list.seen(row)) {
            hasher.update(&seen.size.to_le_bytes());
            hasher.update(&seen.version.to_le_bytes());
        }
    }
    Fingerprint::of([&b"table"[..], hasher.finalize().as_bytes()])
}
