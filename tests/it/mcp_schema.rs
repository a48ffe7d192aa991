//! Schemas of MCP tools: each repair for what strict model servers refuse, and what stays as it is.

use coding_agent::tools::mcp::repaired_schema;
use serde_json::{Map, Value, json};

use crate::support::Random;

#[track_caller]
fn becomes(schema: Value, wanted: Value) {
    assert_eq!(repaired_schema(Some(&schema)), wanted, "{schema}");
}

#[track_caller]
fn stays(schema: Value) {
    let repaired = repaired_schema(Some(&schema));
    assert_eq!(repaired.to_string(), schema.to_string());
}

#[test]
fn what_is_legal_stays_as_it_is() {
    stays(json!({ "type": "object", "properties": {} }));
    stays(json!({
        "type": "object",
        "title": "Search",
        "description": "Looks things up.",
        "properties": {
            "query": { "type": ["string", "null"], "description": "What to look for.", "minLength": 1 },
            "limit": { "type": "integer", "minimum": 1, "maximum": 50, "default": 10 },
            "order": { "enum": ["asc", "desc", null], "examples": [{ "$ref": "data, no reference" }] },
            "filter": {
                "anyOf": [{ "type": "string" }, { "type": "object", "properties": { "a": { "const": 1 } }, "required": ["a"] }]
            },
            "tags": { "type": "array", "items": { "type": "string", "pattern": "^[a-z]+$" }, "uniqueItems": true },
            "map": { "type": "object", "additionalProperties": { "type": "number" } },
            "$ref": { "type": "string", "description": "A property may have any name." },
            "definitions": { "type": "boolean" }
        },
        "required": ["query"],
        "additionalProperties": false
    }));
}

#[test]
fn what_is_no_object_is_a_tool_without_arguments() {
    let nothing = json!({ "type": "object", "properties": {} });
    assert_eq!(repaired_schema(None), nothing);
    for schema in [json!(null), json!(true), json!(false), json!("object"), json!([]), json!({})] {
        becomes(schema, nothing.clone());
    }
    becomes(json!({ "type": "string" }), nothing.clone());
    becomes(
        json!({ "type": ["array", "null"], "items": {}, "description": "d" }),
        json!({ "type": "object", "properties": {}, "description": "d" }),
    );
}

#[test]
fn a_missing_type_is_object_and_missing_properties_are_none() {
    let properties = json!({ "a": { "type": "string" } });
    let wanted = json!({ "type": "object", "properties": properties });
    becomes(json!({ "properties": properties }), wanted.clone());
    becomes(json!({ "type": ["object", "null"], "properties": properties }), wanted);
    becomes(json!({ "type": "object" }), json!({ "type": "object", "properties": {} }));
    becomes(json!({ "type": "object", "properties": [] }), json!({ "type": "object", "properties": {} }));
}

#[test]
fn what_is_only_for_validators_is_dropped_at_the_top() {
    becomes(
        json!({ "$schema": "http://json-schema.org/draft-07/schema#", "$id": "x", "type": "object", "properties": {},
                "not": { "required": ["a"] }, "enum": [{}], "$comment": "c" }),
        json!({ "type": "object", "properties": {} }),
    );
}

#[test]
fn alternatives_at_the_top_become_one_object() {
    for keyword in ["anyOf", "oneOf"] {
        becomes(
            json!({ "type": "object", keyword: [
                { "type": "object", "properties": { "url": { "type": "string" }, "size": { "type": "integer" } }, "required": ["url", "size"] },
                { "properties": { "id": { "type": "string" }, "size": { "type": "integer" } }, "required": ["id", "size"] },
                { "type": "null" },
                false
            ] }),
            json!({
                "type": "object",
                "description": "Needs one of these: `url`; `id`.",
                "properties": { "url": { "type": "string" }, "id": { "type": "string" }, "size": { "type": "integer" } },
                "required": ["size"]
            }),
        );
    }
    // Alternatives that only say what is required, beside properties of their own.
    becomes(
        json!({ "type": "object", "description": "Reads.", "properties": { "project": {}, "paths": {}, "scopes": {} },
                "required": ["project"], "anyOf": [{ "required": ["paths"] }, { "required": ["project", "scopes"] }] }),
        json!({ "type": "object", "description": "Reads. Needs one of these: `paths`; `scopes`.",
                "properties": { "project": {}, "paths": {}, "scopes": {} }, "required": ["project"] }),
    );
    // A property that differs is either of both.
    becomes(
        json!({ "oneOf": [
            { "properties": { "kind": { "const": "a" }, "v": { "type": "string" } } },
            { "properties": { "kind": { "enum": ["b", "a"] }, "v": { "type": "number" } } },
            { "properties": { "v": { "type": "null" } } }
        ] }),
        json!({ "type": "object", "properties": {
            "kind": { "enum": ["a", "b"] },
            "v": { "anyOf": [{ "type": "string" }, { "type": "number" }, { "type": "null" }] }
        } }),
    );
}

#[test]
fn all_of_at_the_top_is_united() {
    becomes(
        json!({ "allOf": [
            { "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a"] },
            { "properties": { "a": { "minLength": 1 }, "b": {} }, "required": ["b", "a"] },
            { "oneOf": [{ "properties": { "c": {} } }] }
        ] }),
        json!({ "type": "object", "properties": { "a": { "type": "string", "minLength": 1 }, "b": {}, "c": {} },
                "required": ["a", "b"] }),
    );
}

#[test]
fn references_are_replaced_by_what_they_refer_to() {
    becomes(
        json!({
            "type": "object",
            "properties": {
                "one": { "$ref": "#/$defs/Name", "description": "closer" },
                "many": { "type": "array", "items": { "$ref": "#/definitions/a~1b" } },
                "same": { "$ref": "#/properties/one" }
            },
            "$defs": { "Name": { "type": "string", "description": "far" } },
            "definitions": { "a/b": { "$ref": "#/$defs/Name" } }
        }),
        json!({
            "type": "object",
            "properties": {
                "one": { "type": "string", "description": "closer" },
                "many": { "type": "array", "items": { "type": "string", "description": "far" } },
                "same": { "type": "string", "description": "closer" }
            }
        }),
    );
    // Also where the whole is a reference.
    becomes(
        json!({ "$ref": "#/definitions/Args", "definitions": { "Args": { "properties": { "a": true }, "required": ["a"] } } }),
        json!({ "type": "object", "properties": { "a": {} }, "required": ["a"] }),
    );
}

#[test]
fn references_that_lead_nowhere_or_back_allow_anything() {
    let anything = |why: &str| json!({ "description": format!("Any value: the schema {why}.") });
    becomes(
        json!({ "type": "object", "properties": { "tree": { "$ref": "#/$defs/Node" } }, "$defs": { "Node": {
            "type": "object", "properties": { "children": { "type": "array", "items": { "$ref": "#/$defs/Node" } } }
        } } }),
        json!({ "type": "object", "properties": { "tree": { "type": "object", "properties": {
            "children": { "type": "array", "items": anything("refers to itself here") }
        } } } }),
    );
    for reference in ["#/$defs/None", "https://example.org/schema.json", "#anchor", "other.json#/a"] {
        becomes(
            json!({ "type": "object", "properties": { "a": { "$ref": reference } } }),
            json!({ "type": "object", "properties": { "a": anything("refers to what is not in it") } }),
        );
    }
    becomes(
        json!({ "$ref": "#" }),
        json!({ "type": "object", "properties": {}, "description": "Any value: the schema refers to itself here." }),
    );
    becomes(json!({ "properties": { "a": { "$ref": 7 } } }), json!({ "type": "object", "properties": { "a": {} } }));
}

#[test]
fn a_small_schema_cannot_become_endless() {
    // Each of sixty definitions holds the next one twice.
    let mut definitions = Map::new();
    for number in 0..60 {
        let next = json!({ "$ref": format!("#/$defs/{}", number + 1) });
        definitions.insert(number.to_string(), json!({ "type": "object", "properties": { "a": next, "b": next } }));
    }
    definitions.insert("60".into(), json!({ "type": "string" }));
    let schema = json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/0" } }, "$defs": definitions });
    let repaired = repaired_schema(Some(&schema)).to_string();
    assert!(repaired.contains("too large to be shown whole"), "{} bytes", repaired.len());
    assert!(repaired.len() < 2_000_000, "{} bytes", repaired.len());
    // And a long chain does not go deeper than a stack.
    let definitions = (0..5_000).map(|number: usize| {
        (number.to_string(), json!({ "properties": { "a": { "$ref": format!("#/$defs/{}", number + 1) } } }))
    });
    let schema = json!({ "$ref": "#/$defs/0", "$defs": definitions.collect::<Map<_, _>>() });
    assert!(repaired_schema(Some(&schema)).to_string().contains("too large to be shown whole"));
}

#[test]
fn definitions_that_refer_to_each_other_stay_near_the_top() {
    // Each of eight refers to all of them: followed to the end that is more than a hundred thousand objects.
    let names: Vec<String> = (0..8).map(|number| format!("part{number}")).collect();
    let all: Map<String, Value> =
        names.iter().map(|name| (name.clone(), json!({ "$ref": format!("#/$defs/{name}") }))).collect();
    let one = |name: &String| (name.clone(), json!({ "type": "object", "title": name, "properties": all }));
    let definitions: Map<String, Value> = names.iter().map(one).collect();
    let schema = json!({ "type": "object", "properties": all, "$defs": definitions });
    let repaired = repaired_schema(Some(&schema));
    let bytes = repaired.to_string().len();
    assert!(bytes < 24_000, "{bytes} bytes");
    for name in &names {
        assert_eq!(repaired["properties"][name]["title"], **name, "none of them is left out");
        assert_eq!(repaired["properties"][name]["properties"].as_object().unwrap().len(), 8);
    }
    // What is as large without references is the server's own will.
    let many: Map<String, Value> = (0..600)
        .map(|number| (format!("p{number}"), json!({ "type": "string", "description": "x".repeat(50) })))
        .collect();
    stays(json!({ "type": "object", "properties": many }));
    let referred = json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/A" } }, "$defs": { "A": { "properties": many } } });
    becomes(referred, json!({ "type": "object", "properties": { "a": { "properties": many } } }));
}

#[test]
fn schemas_that_are_true_or_false_become_objects_or_go() {
    becomes(
        json!({ "type": "object", "properties": { "a": true, "b": false, "c": "text", "d": { "type": "array", "items": true } },
                "required": ["a", "b"], "additionalProperties": true }),
        json!({ "type": "object", "properties": { "a": {}, "c": {}, "d": { "type": "array", "items": {} } },
                "required": ["a"], "additionalProperties": true }),
    );
}

#[test]
fn only_what_exists_is_required() {
    becomes(
        json!({ "type": "object", "properties": { "a": { "type": "object", "properties": { "x": {} }, "required": ["y"] } },
                "required": ["a", "ghost", "a", 7] }),
        json!({ "type": "object", "properties": { "a": { "type": "object", "properties": { "x": {} } } }, "required": ["a"] }),
    );
    becomes(
        json!({ "type": "object", "properties": { "a": { "type": "string", "required": true } }, "required": "a" }),
        json!({ "type": "object", "properties": { "a": { "type": "string" } } }),
    );
    stays(
        json!({ "type": "object", "properties": { "a": { "anyOf": [{ "required": ["x"] }, { "required": ["y"] }] } } }),
    );
}

#[test]
fn lists_say_of_what() {
    becomes(
        json!({ "type": "object", "properties": {
            "any": { "type": "array" },
            "pair": { "type": "array", "items": [{ "type": "string" }, true] },
            "maybe": { "type": ["array", "null"] },
            "none": { "type": "array", "items": [] }
        } }),
        json!({ "type": "object", "properties": {
            "any": { "type": "array", "items": {} },
            "pair": { "type": "array", "items": { "anyOf": [{ "type": "string" }, {}] } },
            "maybe": { "type": ["array", "null"], "items": {} },
            "none": { "type": "array", "items": {} }
        } }),
    );
}

#[test]
fn hidden_text_in_descriptions_is_shown_or_gone() {
    becomes(
        json!({ "type": "object", "properties": { "a": { "description": "good\u{200b}\u{e0041}<!-- obey -->\u{7}" } } }),
        json!({ "type": "object", "properties": { "a": { "description": "good[hidden comment:  obey  :end of hidden comment]\\u{7}" } } }),
    );
}

#[test]
fn whatever_comes_the_result_is_one_that_every_server_takes() {
    let mut random = Random::new(6);
    for _ in 0..3_000 {
        let schema = any(&mut random, 5);
        let repaired = repaired_schema(Some(&schema));
        check(&repaired, true, &schema);
        assert_eq!(repaired_schema(Some(&repaired)).to_string(), repaired.to_string(), "twice: {schema}");
    }
}

/// What strict servers ask for, read by somebody who does not know how it was made.
fn check(schema: &Value, is_top: bool, from: &Value) {
    let object = schema.as_object().unwrap_or_else(|| panic!("{schema} is no schema: {from}"));
    if is_top {
        assert_eq!(object["type"], "object", "{from}");
        assert!(object["properties"].is_object(), "{from}");
        for refused in ["$schema", "$id", "oneOf", "anyOf", "allOf", "not", "enum", "const"] {
            assert!(!object.contains_key(refused), "{refused} at the top: {from}");
        }
    }
    for refused in ["$ref", "$defs", "definitions"] {
        assert!(!object.contains_key(refused), "{refused} in {schema}: {from}");
    }
    if let Some(properties) = object.get("properties").and_then(Value::as_object) {
        properties.values().for_each(|property| check(property, false, from));
        for name in object.get("required").and_then(Value::as_array).into_iter().flatten() {
            let parts = ["anyOf", "oneOf", "allOf"].iter().any(|keyword| object.contains_key(*keyword));
            assert!(parts || properties.contains_key(name.as_str().unwrap()), "{name} is required: {from}");
        }
    }
    for keyword in ["anyOf", "oneOf", "allOf"] {
        if let Some(list) = object.get(keyword) {
            let list = list.as_array().unwrap_or_else(|| panic!("{keyword} in {schema}: {from}"));
            list.iter().for_each(|part| check(part, false, from));
        }
    }
    if object.get("type").is_some_and(|kind| kind == "array") && !object.contains_key("prefixItems") {
        check(&object["items"], false, from);
    }
}

/// A schema that somebody might write, and some that nobody should.
fn any(random: &mut Random, depth: usize) -> Value {
    const NAMES: [&str; 4] = ["a", "b", "$ref", "definitions"];
    const TARGETS: [&str; 7] =
        ["#", "#/$defs/a", "#/$defs/b", "#/definitions/a", "#/properties/a", "#/none", "http://x"];
    if depth == 0 || random.below(8) == 0 {
        return match random.below(6) {
            0 => json!(true),
            1 => json!(false),
            2 => json!({ "const": random.below(3) }),
            3 => json!({ "enum": ["x", random.below(3)] }),
            4 => json!("odd"),
            _ => json!({ "type": random.one_of(&["string", "null", "integer", "array", "object"]) }),
        };
    }
    let mut schema = Map::new();
    for _ in 0..random.below(5) {
        let map = |random: &mut Random| {
            let entries = (0..random.below(3)).map(|_| (random.one_of(&NAMES).to_owned(), any(random, depth - 1)));
            Value::Object(entries.collect())
        };
        let list = |random: &mut Random| (0..random.below(4)).map(|_| any(random, depth - 1)).collect::<Value>();
        let (keyword, value) = match random.below(14) {
            0 => ("type", json!(random.one_of(&["object", "array", "string"]))),
            1 => ("type", json!(["object", random.one_of(&["null", "array"])])),
            2 | 3 => ("properties", map(random)),
            4 => ("required", json!([random.one_of(&NAMES), random.one_of(&NAMES)])),
            5 => ("anyOf", list(random)),
            6 => ("oneOf", list(random)),
            7 => ("allOf", list(random)),
            8 => ("$ref", json!(random.one_of(&TARGETS))),
            9 => ("$defs", map(random)),
            10 => ("definitions", map(random)),
            11 => ("items", if random.below(2) == 0 { any(random, depth - 1) } else { list(random) }),
            12 => ("additionalProperties", any(random, depth - 1)),
            _ => ("description", json!("words")),
        };
        schema.insert(keyword.into(), value);
    }
    Value::Object(schema)
}
