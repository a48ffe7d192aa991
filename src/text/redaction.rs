//! Masks known secrets: the values themselves and the forms in which they travel (base64 of Basic
//! auth, percent-encoding, JSON text). Knows no configuration; it is given the values.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::percent_encoded;

/// Shorter values are not masked: they would hit ordinary words.
const SHORTEST_SECRET_BYTES: usize = 8;

/// Replaces every known secret by `[secret]`. Cheap to clone; what one clone learns, all know.
#[derive(Clone, Default)]
pub struct Redactor {
    needles: Arc<RwLock<Vec<String>>>,
}

impl Redactor {
    /// A redactor for `secrets`; those under eight characters are left out.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Self {
        let redactor = Self::default();
        redactor.learn(secrets);
        redactor
    }

    /// Masks `secrets` as well from now on, in every clone.
    pub fn learn<'a>(&self, secrets: impl IntoIterator<Item = &'a str>) {
        let mut needles = self.needles.write().unwrap_or_else(PoisonError::into_inner);
        for secret in secrets.into_iter().filter(|secret| secret.len() >= SHORTEST_SECRET_BYTES) {
            needles.push(secret.to_owned());
            needles.push(percent_encoded(secret));
            needles.push(json_escaped(secret));
            needles.extend(base64_inner_forms(secret.as_bytes()));
        }
        needles.sort_unstable();
        needles.dedup();
    }

    fn needles(&self) -> RwLockReadGuard<'_, Vec<String>> {
        // Each change leaves a whole list, whatever became of who made it.
        self.needles.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// `text` with every secret masked; secrets that overlap in it become one mask.
    pub fn mask(&self, text: &str) -> String {
        let mut found: Vec<(usize, usize)> = Vec::new();
        for needle in self.needles().iter() {
            let mut from = 0;
            while let Some(at) = text[from..].find(needle.as_str()) {
                let begin = from + at;
                found.push((begin, begin + needle.len()));
                // The next character, not the end: a secret can overlap itself.
                from = begin + needle.chars().next().map_or(1, char::len_utf8);
            }
        }
        found.sort_unstable();
        let mut masked = String::with_capacity(text.len());
        let mut done = 0;
        for (begin, end) in found {
            if begin >= done {
                masked.push_str(&text[done..begin]);
                masked.push_str("[secret]");
            }
            done = done.max(end);
        }
        masked.push_str(&text[done..]);
        masked
    }

    /// `value` with every secret masked in each text of it.
    pub fn mask_json(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.mask(&text)),
            Value::Array(values) => values.into_iter().map(|value| self.mask_json(value)).collect(),
            Value::Object(object) => {
                object.into_iter().map(|(name, value)| (self.mask(&name), self.mask_json(value))).collect()
            }
            other => other,
        }
    }

    /// Whether `text` holds a secret in any of its forms.
    pub fn finds_in(&self, text: &str) -> bool {
        self.needles().iter().any(|needle| text.contains(needle.as_str()))
    }
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redactor({} forms)", self.needles().len())
    }
}

/// As it stands between the quotes of JSON text: results of tools and bodies of requests are that.
fn json_escaped(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// What base64 makes of `bytes` at each of the three places it can start in a group, without the
/// characters that its neighbours decide: so a secret is found inside `user:secret` as well.
fn base64_inner_forms(bytes: &[u8]) -> Vec<String> {
    (0..3usize)
        .map(|shift| {
            let mut padded = vec![0u8; shift];
            padded.extend_from_slice(bytes);
            padded.truncate(padded.len() / 3 * 3);
            // The first characters mix in bits of what stands before the secret.
            STANDARD.encode(padded).split_off([0, 2, 3][shift])
        })
        .filter(|form| form.len() >= SHORTEST_SECRET_BYTES)
        .collect()
}
