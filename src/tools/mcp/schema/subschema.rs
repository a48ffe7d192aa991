//! One walk over a whole schema: references are replaced by what they refer to, and what strict servers
//! refuse inside of a schema is repaired. Bounded, since references can make a small schema endless.

use serde_json::{Map, Value, json};

use super::require_only_what_exists;
use crate::text::visible;

/// Objects in a schema; with more of them no model reads it anyway.
const MOST_NODES: usize = 5_000;
/// References may make a schema larger than it was sent, but not beyond so many objects …
const FEWEST_NODES: usize = 300;
/// … and so much text.
const FEWEST_BYTES: usize = 16 << 10;
/// References make a schema deeper than it was sent.
const DEEPEST: usize = 100;

/// Stands where something is left out.
const TOO_LARGE: &str = "Any value: the schema is too large to be shown whole.";

/// Keywords that refer to another schema.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];
/// Keywords that hold one schema.
const ONE: [&str; 12] = [
    "items",
    "additionalItems",
    "additionalProperties",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contains",
    "propertyNames",
    "not",
    "if",
    "then",
    "else",
    "contentSchema",
];
/// Keywords that hold a list of schemas.
const LISTS: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
/// Keywords that hold schemas by name.
const MAPS: [&str; 4] = ["properties", "patternProperties", "dependentSchemas", "dependencies"];

/// A walk over one schema.
pub(super) struct Walk<'a> {
    root: &'a Value,
    /// References being replaced, the outermost first.
    open: Vec<&'a str>,
    /// So many of them stand within each other.
    most_open: usize,
    nodes: usize,
    most_nodes: usize,
    bytes: usize,
    most_bytes: usize,
    /// It was too large, and something is left out where it happened to be.
    is_cut: bool,
    depth: usize,
    /// At the top, or in a part of it that becomes one with the top.
    is_top: bool,
}

impl<'a> Walk<'a> {
    /// The schema `root`, to which its references refer, repaired. Where that gets too large they are followed less
    /// far, so that what is near the top stays.
    pub(super) fn over(root: &'a Value) -> Value {
        let most_nodes = objects_in(root).clamp(FEWEST_NODES, MOST_NODES);
        let most_bytes = root.to_string().len().max(FEWEST_BYTES);
        let mut repaired = Value::Null;
        for most_open in [usize::MAX, 4, 3, 2, 1] {
            let (open, nodes, bytes, depth) = (Vec::new(), 0, 0, 0);
            let is_cut = false;
            let mut walk =
                Self { root, open, most_open, nodes, most_nodes, bytes, most_bytes, is_cut, depth, is_top: true };
            repaired = walk.schema(root);
            if !walk.is_cut {
                break;
            }
        }
        repaired
    }

    /// A part of the schema, repaired. `true`, and what is no schema at all, allows anything.
    fn schema(&mut self, schema: &'a Value) -> Value {
        let was_top = std::mem::replace(&mut self.is_top, self.depth == 0);
        let repaired = self.part(schema);
        self.is_top = was_top;
        repaired
    }

    fn part(&mut self, schema: &'a Value) -> Value {
        let Value::Object(schema) = schema else { return json!({}) };
        self.nodes += 1;
        if self.nodes > self.most_nodes || self.bytes > self.most_bytes || self.depth >= DEEPEST {
            self.is_cut = true;
            return json!({ "description": TOO_LARGE });
        }
        self.depth += 1;
        let repaired = self.object(schema);
        self.depth -= 1;
        Value::Object(repaired)
    }

    fn object(&mut self, schema: &'a Map<String, Value>) -> Map<String, Value> {
        let mut out = Map::new();
        for (keyword, value) in schema {
            match (keyword.as_str(), value) {
                ("$defs" | "definitions", Value::Object(_)) => continue,
                (name, _) if REFERENCES.contains(&name) => continue,
                // Before 2019 the schemas of a list one by one.
                ("items", Value::Array(list)) => {
                    let any_of: Vec<Value> = list.iter().map(|schema| self.schema(schema)).collect();
                    let items = if any_of.is_empty() { json!({}) } else { json!({ "anyOf": any_of }) };
                    out.insert("items".into(), items);
                }
                ("items", value) if !value.is_object() => drop(out.insert("items".into(), json!({}))),
                (name, Value::Object(_)) if ONE.contains(&name) => {
                    out.insert(name.into(), self.schema(value));
                }
                (name, Value::Array(list)) if LISTS.contains(&name) => {
                    let possible = list.iter().filter(|one| **one != json!(false));
                    let list: Vec<Value> = possible.map(|one| self.part(one)).collect();
                    // An empty list is illegal; none of it says the same.
                    if !list.is_empty() {
                        out.insert(name.into(), list.into());
                    }
                }
                (name, Value::Object(map)) if MAPS.contains(&name) => {
                    let named = map.iter().filter(|(_, one)| **one != json!(false));
                    let map = named.map(|(key, one)| (key.clone(), self.entry(name, one))).collect();
                    out.insert(name.into(), Value::Object(map));
                }
                // Twenty years ago a flag of the property itself.
                ("required", value) if !value.is_array() => {}
                ("description" | "title", Value::String(text)) => {
                    self.bytes += text.len();
                    out.insert(keyword.clone(), visible(text).into());
                }
                _ => {
                    self.bytes += keyword.len() + value.to_string().len();
                    out.insert(keyword.clone(), value.clone());
                }
            }
        }
        for reference in REFERENCES {
            if let Some(Value::String(target)) = schema.get(reference) {
                for (keyword, value) in self.referred_to(target) {
                    // What stands beside the reference is closer to what is meant.
                    out.entry(keyword).or_insert(value);
                }
            }
        }
        if may_be(&out, "array") && !out.contains_key("items") && !out.contains_key("prefixItems") {
            out.insert("items".into(), json!({}));
        }
        // A part may require what another part describes.
        if !self.is_top && !LISTS.iter().any(|keyword| out.contains_key(*keyword)) {
            require_only_what_exists(&mut out);
        }
        out
    }

    fn entry(&mut self, keyword: &str, value: &'a Value) -> Value {
        // `dependencies` also holds lists of names.
        if keyword == "dependencies" && value.is_array() { value.clone() } else { self.schema(value) }
    }

    fn referred_to(&mut self, target: &'a str) -> Map<String, Value> {
        let note = |why: &str| Map::from_iter([("description".to_owned(), why.into())]);
        if self.open.contains(&target) {
            return note("Any value: the schema refers to itself here.");
        }
        if self.open.len() >= self.most_open {
            return note(TOO_LARGE);
        }
        let pointer = target.strip_prefix('#').filter(|rest| rest.is_empty() || rest.starts_with('/'));
        let decoded = pointer.map(|pointer| pointer.replace("%24", "$").replace("%20", " "));
        let Some(found) = decoded.and_then(|pointer| self.root.pointer(&pointer)) else {
            return note("Any value: the schema refers to what is not in it.");
        };
        self.open.push(target);
        let schema = self.part(found);
        self.open.pop();
        match schema {
            Value::Object(schema) => schema,
            _ => Map::new(),
        }
    }
}

fn objects_in(value: &Value) -> usize {
    match value {
        Value::Object(fields) => 1 + fields.values().map(objects_in).sum::<usize>(),
        Value::Array(list) => list.iter().map(objects_in).sum(),
        _ => 0,
    }
}

/// Whether `schema` says that it is of this type, alone or among others.
pub(super) fn may_be(schema: &Map<String, Value>, kind: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(found)) => found == kind,
        Some(Value::Array(list)) => list.iter().any(|found| found == kind),
        _ => false,
    }
}
