//! JSON as servers and models really send it: with a byte order mark, with half a surrogate pair,
//! with raw line breaks inside strings, with bytes that are no UTF-8 (case C21). Mends these and
//! nothing else; what is broken otherwise stays an error.

use std::borrow::Cow;

use serde_json::Value;

/// Parses JSON, strictly first; mended only when that fails.
///
/// # Errors
/// That of the strict parse, whose place is the right one.
pub fn parse_json(bytes: &[u8]) -> Result<Value, serde_json::Error> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    serde_json::from_slice(bytes).or_else(|error| {
        let text = String::from_utf8_lossy(bytes);
        match (&text, mended(&text)) {
            (Cow::Borrowed(_), Cow::Borrowed(_)) => Err(error),
            (_, mended) => serde_json::from_str(&mended).map_err(|_| error),
        }
    })
}

/// `value` with each NUL in a text of it as its escape: some servers refuse every request that holds
/// one, written as JSON or not.
pub fn json_without_nul(value: Value) -> Value {
    let mend = |text: String| if text.contains('\0') { text.replace('\0', "\\u{0}") } else { text };
    match value {
        Value::String(text) => Value::String(mend(text)),
        Value::Array(values) => values.into_iter().map(json_without_nul).collect(),
        Value::Object(object) => {
            object.into_iter().map(|(name, value)| (mend(name), json_without_nul(value))).collect()
        }
        other => other,
    }
}

/// Inside strings: a lone half of a surrogate pair becomes U+FFFD, a raw control character its
/// escape. A whole pair and everything outside strings stay as they are. serde_json refuses both,
/// and RFC 8259 (sections 7 and 8.2) calls the first unpredictable and the second wrong.
fn mended(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    // Bytes of `text` that are in `out`, or replaced there.
    let mut copied = 0;
    let mut in_string = false;
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let mut length = 1;
        let mut replacement = None;
        match byte {
            b'"' => in_string = !in_string,
            b'\\' if in_string => match (surrogate(bytes, at), surrogate(bytes, at + 6)) {
                (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => length = 12,
                (Some(_), _) => (length, replacement) = (6, Some("\\ufffd".to_owned())),
                // The character behind it is part of the escape, a quote above all.
                (None, _) => length = 2,
            },
            0..0x20 if in_string => replacement = Some(format!("\\u{byte:04x}")),
            _ => {}
        }
        if let Some(replacement) = replacement {
            // Both ends lie beside ASCII bytes, so they are character boundaries.
            out.push_str(&text[copied..at]);
            out.push_str(&replacement);
            copied = at + length;
        }
        at += length;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

/// The half of a surrogate pair that an escape `\uD800` … `\uDFFF` at `at` stands for.
fn surrogate(bytes: &[u8], at: usize) -> Option<u32> {
    let escape = bytes.get(at..at + 6)?;
    let digits = escape.strip_prefix(b"\\u").and_then(|digits| std::str::from_utf8(digits).ok())?;
    let code = u32::from_str_radix(digits, 16).ok()?;
    (0xD800..=0xDFFF).contains(&code).then_some(code)
}
