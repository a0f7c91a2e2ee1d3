//! `data_spec`: the tree of containers of a sample, as the names of its leaves.

use serde::Deserialize;

/// Name of the only leaf of a sample that is not a container.
pub(super) const ROOT: &str = "value";

/// Maximum depth of nesting.
const MAX_DEPTH: usize = 64;

#[derive(Deserialize)]
struct Node {
    #[serde(rename = "type")]
    kind: Option<String>,
    context: Option<String>,
    #[serde(default)]
    children_spec: Vec<Node>,
}

/// Dotted names of the leaves in flattening order: dictionary keys, positions in lists and tuples.
pub(super) fn leaf_names(text: &str) -> Result<Vec<String>, String> {
    let (version, root): (u32, Node) =
        serde_json::from_str(text).map_err(|e| format!("not a tree spec: {e}"))?;
    if version != 1 {
        return Err(format!("version {version} is unknown"));
    }
    let mut names = Vec::new();
    collect(&root, "", 0, &mut names)?;
    let mut sorted: Vec<&String> = names.iter().collect();
    sorted.sort();
    if let Some([twice, _]) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(format!("two leaves are both called '{twice}'"));
    }
    Ok(names)
}

fn collect(node: &Node, prefix: &str, depth: usize, names: &mut Vec<String>) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err(format!("nested more than {MAX_DEPTH} deep"));
    }
    let Some(kind) = &node.kind else {
        names.push(if prefix.is_empty() { ROOT.to_owned() } else { prefix.to_owned() });
        return Ok(());
    };
    let keys = keys(kind, node)?;
    if keys.len() != node.children_spec.len() {
        return Err(format!("a {kind} of {} keys has {} children", keys.len(), node.children_spec.len()));
    }
    for (key, child) in keys.iter().zip(&node.children_spec) {
        let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        collect(child, &name, depth + 1, names)?;
    }
    Ok(())
}

/// The keys of a container's children.
fn keys(kind: &str, node: &Node) -> Result<Vec<String>, String> {
    let context = || serde_json::from_str(node.context.as_deref().unwrap_or("null"));
    let context: serde_json::Value = context().map_err(|e| format!("context of {kind}: {e}"))?;
    let listed = match kind {
        "builtins.dict" | "collections.OrderedDict" => Some(&context),
        // A default dictionary's context is its factory and the keys.
        "collections.defaultdict" => context.get(1).or(Some(&context)),
        _ => None,
    };
    match listed {
        None => Ok((0..node.children_spec.len()).map(|n| n.to_string()).collect()),
        Some(serde_json::Value::Array(keys)) => Ok(keys.iter().map(key_name).collect()),
        Some(_) => Err(format!("a {kind} without its keys")),
    }
}

fn key_name(key: &serde_json::Value) -> String {
    key.as_str().map_or_else(|| key.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAF: &str = r#"{"type": null, "context": null, "children_spec": []}"#;

    #[test]
    fn trees_become_dotted_names() {
        let pair =
            format!(r#"{{"type": "builtins.tuple", "context": "null", "children_spec": [{LEAF}, {LEAF}]}}"#);
        let dict = format!(
            r#"[1, {{"type": "builtins.dict", "context": "[\"a\", 7]", "children_spec": [{LEAF}, {pair}]}}]"#
        );
        assert_eq!(leaf_names(&dict).unwrap(), ["a", "7.0", "7.1"]);
        assert_eq!(leaf_names(&format!("[1, {LEAF}]")).unwrap(), ["value"]);
        assert_eq!(leaf_names(&format!("[1, {pair}]")).unwrap(), ["0", "1"]);
        let with_default = format!(
            r#"[1, {{"type": "collections.defaultdict", "context": "[null, [\"k\"]]", "children_spec": [{LEAF}]}}]"#
        );
        assert_eq!(leaf_names(&with_default).unwrap(), ["k"]);
    }

    #[test]
    fn malformed_trees_are_refused() {
        let keys = |keys: &str| {
            format!(
                r#"[1, {{"type": "builtins.dict", "context": "{keys}", "children_spec": [{LEAF}, {LEAF}]}}]"#
            )
        };
        assert!(leaf_names(&keys("[]")).unwrap_err().contains("0 keys"));
        assert!(leaf_names(&keys("null")).unwrap_err().contains("without its keys"));
        assert!(leaf_names(&keys(r#"[\"a\", \"a\"]"#)).unwrap_err().contains("both called 'a'"));
        assert!(leaf_names("[2, {}]").unwrap_err().contains("version 2"));
        assert!(leaf_names("null").is_err());
        let deep = (0..100).fold(LEAF.to_owned(), |inner, _| {
            format!(r#"{{"type": "builtins.list", "context": "null", "children_spec": [{inner}]}}"#)
        });
        assert!(leaf_names(&format!("[1, {deep}]")).is_err());
    }
}
