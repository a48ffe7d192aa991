//! One object in place of alternatives at the top of a schema: it has the properties of all of them, and
//! requires what each of them requires. What else they ask for is said in words.

use serde_json::{Map, Value, json};

use super::subschema::may_be;

/// `schema` without `allOf`, `anyOf` and `oneOf` at its top. It allows at least what it allowed before.
pub(super) fn united(mut schema: Map<String, Value>) -> Map<String, Value> {
    for part in parts(&mut schema, "allOf") {
        add_properties(&mut schema, &part, |mine, theirs| match (mine, theirs) {
            (Value::Object(mine), Value::Object(theirs)) => {
                for (keyword, value) in theirs {
                    mine.entry(keyword).or_insert_with(|| value.clone());
                }
            }
            (mine, theirs) => *mine = theirs.clone(),
        });
        let names: Vec<Value> = required(&schema).into_iter().chain(required(&part)).collect();
        set_required(&mut schema, names);
        for keyword in ["title", "description"] {
            if let Some(value) = part.get(keyword) {
                schema.entry(keyword).or_insert_with(|| value.clone());
            }
        }
    }
    for keyword in ["anyOf", "oneOf"] {
        let alternatives = parts(&mut schema, keyword);
        for alternative in &alternatives {
            add_properties(&mut schema, alternative, either);
        }
        let sets: Vec<Vec<Value>> = alternatives.iter().map(required).collect();
        let Some((first, others)) = sets.split_first() else { continue };
        let common = first.iter().filter(|name| others.iter().all(|set| set.contains(name)));
        let names = required(&schema).into_iter().chain(common.cloned()).collect();
        set_required(&mut schema, names);
        say_sets(&mut schema, &sets);
    }
    schema
}

/// Whether an object fits; a schema without a type may be one.
pub(super) fn may_be_object(schema: &Map<String, Value>) -> bool {
    !schema.contains_key("type") || may_be(schema, "object")
}

/// Takes the parts of `keyword` that an object can fit, united themselves.
fn parts(schema: &mut Map<String, Value>, keyword: &str) -> Vec<Map<String, Value>> {
    let Some(Value::Array(list)) = schema.remove(keyword) else { return Vec::new() };
    let objects = list.into_iter().filter_map(|part| match part {
        Value::Object(part) => Some(united(part)),
        _ => None,
    });
    objects.filter(may_be_object).collect()
}

fn add_properties(schema: &mut Map<String, Value>, part: &Map<String, Value>, both: impl Fn(&mut Value, &Value)) {
    let Some(Value::Object(theirs)) = part.get("properties") else { return };
    let mine = schema.entry("properties").or_insert_with(|| json!({}));
    let Value::Object(mine) = mine else { return };
    for (name, property) in theirs {
        match mine.get_mut(name) {
            None => drop(mine.insert(name.clone(), property.clone())),
            Some(found) if found == property => {}
            Some(found) => both(found, property),
        }
    }
}

/// Makes of one property what fits either: one list of values where both list theirs.
fn either(mine: &mut Value, theirs: &Value) {
    if let (Some(mut values), Some(more)) = (listed(mine), listed(theirs)) {
        more.into_iter().for_each(|value| {
            if !values.contains(&value) {
                values.push(value);
            }
        });
        if let Value::Object(mine) = mine {
            mine.remove("const");
            if mine.get("type") != theirs.get("type") {
                mine.remove("type");
            }
            mine.insert("enum".into(), values.into());
        }
        return;
    }
    let mut ways = match mine {
        Value::Object(only) if only.len() == 1 => match only.get("anyOf") {
            Some(Value::Array(ways)) => ways.clone(),
            _ => vec![mine.clone()],
        },
        _ => vec![mine.clone()],
    };
    if !ways.contains(theirs) {
        ways.push(theirs.clone());
    }
    *mine = json!({ "anyOf": ways });
}

/// The values a property may have, where it lists them.
fn listed(property: &Value) -> Option<Vec<Value>> {
    match (property.get("const"), property.get("enum")) {
        (Some(value), _) => Some(vec![value.clone()]),
        (None, Some(Value::Array(values))) => Some(values.clone()),
        _ => None,
    }
}

fn required(schema: &Map<String, Value>) -> Vec<Value> {
    match schema.get("required") {
        Some(Value::Array(names)) => names.clone(),
        _ => Vec::new(),
    }
}

fn set_required(schema: &mut Map<String, Value>, names: Vec<Value>) {
    let mut unique: Vec<Value> = Vec::new();
    names.into_iter().for_each(|name| {
        if !unique.contains(&name) {
            unique.push(name);
        }
    });
    if !unique.is_empty() {
        schema.insert("required".into(), unique.into());
    }
}

/// Says in the description which arguments belong together, where the alternatives differ in that.
fn say_sets(schema: &mut Map<String, Value>, sets: &[Vec<Value>]) {
    let always = required(schema);
    let mut said: Vec<String> = Vec::new();
    for set in sets {
        let names = set.iter().filter(|name| !always.contains(name)).filter_map(Value::as_str);
        let names = names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" and ");
        if !names.is_empty() && !said.contains(&names) {
            said.push(names);
        }
    }
    if said.len() < 2 {
        return;
    }
    let sentence = format!("Needs one of these: {}.", said.join("; "));
    let description = match schema.get("description").and_then(Value::as_str) {
        Some(text) => format!("{text} {sentence}"),
        None => sentence,
    };
    schema.insert("description".into(), description.into());
}
